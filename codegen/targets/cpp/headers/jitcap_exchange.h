// Collectives of a compiled program: from its entry into MPI, without Python.
//
//   exchange::start(e, out, in, count)   `in` is sent, and `out` is written from now on
//   exchange::poll(e)                    MPI moves data inside its calls only: between two kernels
//   exchange::wait(e)                    `out` is there
//   exchange::finish(e)                  behind the last of a program
// They return 1 where the run ends; what is wrong stands in the record. MPI's functions and handles are of
// the library that Python has loaded (runtime/exchange.py), which may have 4 bytes for a handle or 8:
// arguments of both kinds are passed alike. What MPI does not do itself (16-bit floats) is done by `host`.
#pragma once
#include <sched.h>
#include <time.h>
#include "jitcap_dot.h"

namespace jc {
struct JcAgreement {  // of the ranks of a group, that they came to the same collectives in this call
  i64 state;          // 0: not asked yet, 1: asked, 2: they did
  i64 mine[2], least[2];  // a digest, and minus it
  void *reduce;
  u64 type, least_of;  // int64, MPI_MIN
};
struct JcExchange {  // runtime/exchange.py: ExchangeStruct; one per collective of a program and thread
  i64 kind;          // of `Kind`; 0: `host` does it
  void *begin;       // MPI_Iallreduce, ...
  int (*test)(void *request, int *flag, void *status);
  u64 comm, type, op, in_place;
  i64 root, bytes, ranks;  // bytes of an element
  f64 timeout;
  JcAgreement *agreement;
  int (*host)(i64 number, i64 what, void *out, const void *in);
  i64 number, active, begun, fault, code;
  u64 request;
  char status[128];
};

namespace exchange {
enum Kind { HOST, REDUCE, BROADCAST, GATHER, SCATTER, TRADE };
enum Fault { NONE, REFUSED, LATE, DIFFERENT, PYTHON };
enum What { START, WAIT };
typedef int (*Reduce)(const void *, void *, i64, u64 type, u64 op, u64 comm, void *request);
typedef int (*Broadcast)(void *, i64, u64 type, i64 root, u64 comm, void *request);
typedef int (*Move)(const void *, i64, u64, void *, i64, u64, u64 comm, void *request);
constexpr f64 EAGER_POLLS = 1;  // seconds of waiting after which a rank sleeps between questions
constexpr f64 SIGNALS = 0.1;    // seconds of waiting between questions for Ctrl-C

static inline f64 now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static inline int failed(JcExchange *e, i64 fault, i64 code = 0) {
  e->fault = fault;
  e->code = code;
  e->active = 0;
  return 1;
}
static inline void poll(JcExchange *e) {
  if (!e->active || !e->kind) return;
  int done = 0, code = e->test(&e->request, &done, e->status);
  if (code) failed(e, REFUSED, code);
  else if (done) e->active = 0;
}
// A rank that waits leaves its core to the others.
static JC_NOINLINE int finished(JcExchange *e) {
  f64 start = now(), asked = 0;
  for (poll(e); e->active; poll(e)) {
    f64 waited = now() - start;
    if (waited > e->timeout) {
      e->fault = LATE;
      return 1;
    }
    if (waited - asked > SIGNALS) {
      asked = waited;
      if (jc_interrupted()) {
        e->fault = PYTHON;
        return 1;
      }
    }
    if (waited < EAGER_POLLS) sched_yield();
    else {
      timespec nap = {0, 1000000};
      nanosleep(&nap, nullptr);
    }
  }
  return e->fault != NONE;
}
static JC_NOINLINE int agree(JcExchange *e) {
  JcAgreement *a = e->agreement;
  if (!e->kind || !a->reduce) return 0;  // `host` asks
  int code = ((Reduce)a->reduce)(a->mine, a->least, 2, a->type, a->least_of, e->comm, &e->request);
  if (code) return failed(e, REFUSED, code);
  e->active = a->state = 1;
  if (finished(e)) return 1;
  if (a->least[0] + a->least[1]) return failed(e, DIFFERENT);
  a->state = 2;
  return 0;
}
static inline int begin(JcExchange *e, void *out, const void *in, i64 count) {
  i64 whole = count * e->bytes;
  switch (e->kind) {
    case REDUCE:
      if (in == out) in = (const void *)e->in_place;
      return ((Reduce)e->begin)(in, out, count, e->type, e->op, e->comm, &e->request);
    case BROADCAST:
      if (in != out) __builtin_memcpy(out, in, whole);
      return ((Broadcast)e->begin)(out, whole, e->type, e->root, e->comm, &e->request);
    case SCATTER: return ((Reduce)e->begin)(in, out, count / e->ranks, e->type, e->op, e->comm, &e->request);
    case GATHER: return ((Move)e->begin)(in, whole, e->type, out, whole, e->type, e->comm, &e->request);
    default: whole /= e->ranks; return ((Move)e->begin)(in, whole, e->type, out, whole, e->type, e->comm, &e->request);
  }
}
static inline bool hosted(JcExchange *e, What what, void *out, const void *in) {
  return !jc_interrupted() && e->host(e->number, what, out, in);
}
static JC_NOINLINE int start(void *place, void *out, const void *in, i64 count) {
  JcExchange *e = (JcExchange *)place;
  e->begun = 1;
  e->fault = NONE;
  if (e->agreement && e->agreement->state != 2 && agree(e)) return 1;
  if (!e->kind) {
    if (!hosted(e, START, out, in)) return failed(e, PYTHON);
    e->active = 1;
    return 0;
  }
  int code = begin(e, out, in, count);
  if (code) return failed(e, REFUSED, code);
  e->active = 1;
  return 0;
}
static JC_NOINLINE int wait(void *place) {
  JcExchange *e = (JcExchange *)place;
  if (e->kind) return finished(e);
  e->active = 0;
  return hosted(e, WAIT, nullptr, nullptr) ? 0 : failed(e, PYTHON);
}
static inline void poll(void *place) { poll((JcExchange *)place); }
static inline void finish(void *place) { ((JcExchange *)place)->begun = 2; }
}  // namespace exchange
}  // namespace jc
