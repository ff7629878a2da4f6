#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", "Nothing but compiled.", -1, NULL};

PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
