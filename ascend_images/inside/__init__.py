"""What runs inside an image: its facts and the checks over them.

Nothing but Python 3.9 and its standard library is needed, and modules import one another relatively: the folder is
copied into every image as /opt/ascend-images/inside, beside check.py, and lies there outside this package.
"""
