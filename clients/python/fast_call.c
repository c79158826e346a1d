/* tessera._fast_call: calls tessera_session_run on arrays, in one call from Python. With ctypes, getting an array's
   address alone takes a microsecond, see tests/bench/python_calls. Uses Python's stable ABI: one build works with 3.11
   and later. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "compiler/runtime/tessera.h"

typedef tessera_status (*run_function)(tessera_session*, const tessera_const_buffer*, size_t, const tessera_buffer*,
                                       size_t);
typedef tessera_status (*run_state_function)(tessera_session*, tessera_state*, const tessera_const_buffer*, size_t,
                                             const tessera_buffer*, size_t);
enum { kOnStack = 16 };

/* Gets buffer views of `count` arrays and converts them to C structures; inputs and outputs have the same layout.
   None is left out. Returns the number of views; fewer than `count` with an exception set. */
static Py_ssize_t take(PyObject* arrays, Py_ssize_t count, int flags, Py_buffer* views, tessera_buffer* places) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* array = PyList_GetItem(arrays, i);
    if (array == Py_None) {
      memset(&views[i], 0, sizeof views[i]); /* a view of nothing, which may be released */
      places[i].data = NULL;
      places[i].size_bytes = 0;
      continue;
    }
    if (!array || PyObject_GetBuffer(array, &views[i], flags) != 0) return i;
    places[i].data = views[i].buf;
    places[i].size_bytes = (size_t)views[i].len;
  }
  return count;
}

/* run(address of tessera_session_run, address of a session, [inputs], [outputs]) -> tessera_status, or
   run(address of tessera_session_run_state, address of a session, [inputs], [outputs], address of a state). */
static PyObject* run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)self;
  if (count != 4 && count != 5) return PyErr_Format(PyExc_TypeError, "run takes 4 or 5 arguments, not %zd", count);
  void* function = PyLong_AsVoidPtr(arguments[0]);
  void* session = PyLong_AsVoidPtr(arguments[1]);
  void* state = count == 5 ? PyLong_AsVoidPtr(arguments[4]) : NULL;
  const Py_ssize_t inputs = PyList_Size(arguments[2]);
  const Py_ssize_t outputs = PyList_Size(arguments[3]);
  if (PyErr_Occurred()) return NULL;

  const size_t total = (size_t)(inputs + outputs);
  Py_buffer few_views[kOnStack], *views = few_views;
  tessera_buffer few_places[kOnStack], *places = few_places;
  if (total > kOnStack) {
    views = PyMem_Malloc(total * sizeof *views);
    places = PyMem_Malloc(total * sizeof *places);
  }
  PyObject* answer = NULL;
  Py_ssize_t taken = 0;
  if (!views || !places) {
    PyErr_NoMemory();
  } else {
    taken = take(arguments[2], inputs, PyBUF_SIMPLE, views, places);
    if (taken == inputs) taken += take(arguments[3], outputs, PyBUF_WRITABLE, views + inputs, places + inputs);
    if (taken == inputs + outputs) {
      tessera_status status;
      run_function session_run;
      run_state_function session_run_state;
      *(void**)&session_run = function;
      *(void**)&session_run_state = function;
      const tessera_const_buffer* in = (const tessera_const_buffer*)places;
      tessera_buffer* out = places + inputs;
      Py_BEGIN_ALLOW_THREADS status = state
                                          ? session_run_state(session, state, in, (size_t)inputs, out, (size_t)outputs)
                                          : session_run(session, in, (size_t)inputs, out, (size_t)outputs);
      Py_END_ALLOW_THREADS answer = PyLong_FromLong(status);
    }
    while (taken > 0) PyBuffer_Release(&views[--taken]);
  }
  if (total > kOnStack) {
    PyMem_Free(views);
    PyMem_Free(places);
  }
  return answer;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Runs a session once; its status."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tessera._fast_call", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fast_call(void);  // NOLINT(misc-use-internal-linkage): Python finds it by its name
PyMODINIT_FUNC PyInit__fast_call(void) { return PyModule_Create(&module); }
