from setuptools import setup

setup(name="smoke-modules", version="1.0", packages=["smoke_modules"], install_requires=["requests>=2.32"])
