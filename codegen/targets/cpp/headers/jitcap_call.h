// The call from Python into a compiled graph: list of arrays and numbers -> pointers -> entry.
//
// runtime/cpu.py makes a builtin function of it (METH_FASTCALL) whose `self` is the address of the
// plan: calling that costs 0.05 us where ctypes takes 0.4, and the two lists are read here, where
// filling ctypes arrays from Python would cost 0.15 us per tensor. The Python objects are read with
// functions of the stable ABI, declared here because Python.h may not be installed. Type and data of
// an ndarray are read at offsets that runtime/cpu.py has found out at start.
#pragma once
#include "jitcap_simd.h"
#ifdef JC_CLOCKS
#include "jitcap_clocks.h"
#endif

struct PyObject_;
extern "C" {
PyObject_ *PyList_GetItem(PyObject_ *, long);
PyObject_ *PyLong_FromLong(long);
void *PyLong_AsVoidPtr(PyObject_ *);
long long PyLong_AsLongLong(PyObject_ *);
double PyFloat_AsDouble(PyObject_ *);
PyObject_ *PyErr_Occurred(void);
int PyErr_CheckSignals(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
}
struct JcArena {  // runtime/arena.py: ArenaStruct
  void *base;
  long bytes, busy;
};
struct JcPlan {  // runtime/cpu.py: PlanStruct; one per artifact and thread
  int (*entry)(void **, const double *, void *);
  JcArena *arena;
  const char *kinds;  // per input: t array, f float, i int
  long inputs, outputs, data_offset, type_offset, release_gil;
  void *array_type;  // numpy.ndarray; anything else where an array belongs is refused
  void **buffers;  // room for arrays and outputs; hosts are filled in by Python
  double *scalars;
  void *clocks;  // jitcap_clocks.h, of a program that is profiled
};
enum { JC_CALL_PYTHON_ERROR = -1, JC_CALL_BUSY = -2, JC_CALL_TYPE = -3 };

// 1 where a signal's handler has raised, in Python's main thread: the call raises what it did.
static inline int jc_interrupted() {
  int state = PyGILState_Ensure();
  int raised = PyErr_CheckSignals();
  PyGILState_Release(state);
  return raised;
}

static inline void *jc_field(PyObject_ *x, long offset) { return *(void **)((char *)x + offset); }

static inline int jc_run(PyObject_ *inputs, PyObject_ *outputs, JcPlan *p) {
  if (p->arena->busy) return JC_CALL_BUSY;  // a Python kernel called back into compiled code
  void **buffer = p->buffers;
  double *scalar = p->scalars;
  for (long i = 0; i < p->inputs; i++) {
    PyObject_ *x = PyList_GetItem(inputs, i);
    if (!x) return JC_CALL_PYTHON_ERROR;
    if (p->kinds[i] == 't') {
      if (jc_field(x, p->type_offset) != p->array_type) return JC_CALL_TYPE;
      *buffer++ = jc_field(x, p->data_offset);
    } else if (p->kinds[i] == 'f') {
      if ((*scalar++ = PyFloat_AsDouble(x)) == -1.0 && PyErr_Occurred()) return JC_CALL_PYTHON_ERROR;
    } else {
      long long v = PyLong_AsLongLong(x);
      if (v == -1 && PyErr_Occurred()) return JC_CALL_PYTHON_ERROR;
      __builtin_memcpy(scalar++, &v, 8);
    }
  }
  for (long i = 0; i < p->outputs; i++) *buffer++ = jc_field(PyList_GetItem(outputs, i), p->data_offset);
  __builtin_memset((char *)p->arena->base - 64, 0, 64);  // the error record
  p->arena->busy = 1;
  void *thread = p->release_gil ? PyEval_SaveThread() : nullptr;
#ifdef JC_CLOCKS
  JcClocks *const clocks = jc_clocks;
  const long inside = jc_inside;
  jc_clocks = (JcClocks *)p->clocks, jc_inside = 0;
#endif
  int code = p->entry(p->buffers, p->scalars, p->arena->base);
#ifdef JC_CLOCKS
  jc_clocks = clocks, jc_inside = inside;
#endif
  if (p->release_gil) PyEval_RestoreThread(thread);
  p->arena->busy = 0;
  return code && PyErr_Occurred() ? (int)JC_CALL_PYTHON_ERROR : code;
}

// (inputs, outputs), two lists -> what the entry returned, or what of `JC_CALL_...` it met.
static inline PyObject_ *jc_call(PyObject_ *plan, PyObject_ *const *lists, long) {
  int code = jc_run(lists[0], lists[1], (JcPlan *)PyLong_AsVoidPtr(plan));
  return code == JC_CALL_PYTHON_ERROR ? nullptr : PyLong_FromLong(code);
}
