// The thread team: one per process, behind jc::parallel. Compiled once per machine (runtime/support.py).
//
// A loop is cut into pieces that members take as they get free, the caller among them. The caller
// does not wait for a member that has not begun: where the system wakes members late, or another
// process holds their processor, the caller does the work itself. Members look for the next loop
// for a short time (a loop then starts in 1 us, where waking a sleeper takes 5 to 30), then sleep:
// threads that spin for long ruin every other process of a shared machine. One loop at a time has
// the team; a loop inside a loop, or from a second thread at the same time, runs in its caller alone.
// After fork the child makes itself a new team. Members treat denormal numbers as the caller does.
#pragma once
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace jc_team {
typedef void (*Part)(void *, long, long);
struct Job {
  Part part;
  void *body;
  long n, grain, pieces;
  int members;
  unsigned long control;
};
constexpr long SPIN_NS = 30000;
static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER;  // held while a loop has the team
alignas(64) static Job job;
alignas(64) static long next_piece;
alignas(64) static long open_job;  // number of the job that members may join, 0: none
alignas(64) static int active;     // members that may be looking at `job`
static int sleepers, helpers, joined;
static int bell;  // a futex: rung when a job opens while members sleep
static long jobs;
static thread_local int member;

template <class T> static inline T get(T *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
template <class T> static inline void set(T *p, T v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
static inline long now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000l + t.tv_nsec;
}
static inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
// The word by which the processor rounds, and keeps or flushes denormal numbers, without its flags.
static inline unsigned long control_word() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
  unsigned long word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return 0;
#endif
}
static inline void set_control_word(unsigned long word) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((unsigned)word);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(word));
#endif
}
static void take_pieces() {
  Job j = job;
  long blocks = (j.n + j.grain - 1) / j.grain, each = blocks / j.pieces, extra = blocks % j.pieces;
  for (;;) {
    long i = __atomic_fetch_add(&next_piece, 1, __ATOMIC_RELAXED);
    if (i >= j.pieces) return;
    long lo = (i * each + (i < extra ? i : extra)) * j.grain;
    long hi = lo + (each + (i < extra)) * j.grain;
    j.part(j.body, lo, hi < j.n ? hi : j.n);
  }
}
static bool fresh(long seen) {
  long now = get(&open_job);
  return now && now != seen;
}
static void wait_for_job(long seen) {
  for (long until = now_ns() + SPIN_NS; now_ns() < until;) {
    for (int i = 0; i < 50; i++)  // a pause now and then: hypervisors punish loops of pauses
      if (fresh(seen)) return;
    relax();
  }
  __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    int rung = get(&bell);
    if (fresh(seen)) break;
    syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, rung, nullptr);
  }
  __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
}
static void *help(void *) {
  for (long seen = 0;;) {
    wait_for_job(seen);
    long number = get(&open_job);
    __atomic_add_fetch(&active, 1, __ATOMIC_SEQ_CST);  // from here on the caller waits for us ...
    if (number && get(&open_job) == number) {          // ... unless it closed the job before
      seen = number;
      member = __atomic_add_fetch(&joined, 1, __ATOMIC_RELAXED);
      if (control_word() != job.control) set_control_word(job.control);
      if (member < job.members) take_pieces();
    }
    __atomic_sub_fetch(&active, 1, __ATOMIC_SEQ_CST);
  }
  return nullptr;
}
static void after_fork() {
  owner = PTHREAD_MUTEX_INITIALIZER;
  helpers = sleepers = active = 0;
  open_job = 0;
}
// Threads that cannot be made are done without. Signals stay with Python's own threads.
static void make_helpers(int wanted) {
  static bool registered = false;
  if (!registered) registered = !pthread_atfork(nullptr, nullptr, after_fork);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (; helpers < wanted; helpers++) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, help, nullptr)) break;
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
// How many members a loop gets that is worth `worth` of them. Waking sleepers takes a system call (2 us,
// 30 in some sandboxes): small loops do it only when enough of them have passed.
static int team(double worth, int most) {
  static thread_local double passed;
  int wanted = worth < most ? (int)worth : most;
  if (helpers - get(&sleepers) >= wanted - 1) return wanted;
  passed += worth;
  if (worth < 8 && passed < 24) return 1;
  passed = 0;
  return wanted;
}
static void run(Part part, void *body, long n, long grain, long pieces, int members) {
  if (members <= 1 || pieces <= 1 || pthread_mutex_trylock(&owner)) {
    part(body, 0, n);
    return;
  }
  if (helpers < members - 1) make_helpers(members - 1);
  job = {part, body, n, grain, pieces, members, control_word()};
  set(&next_piece, 0l);
  set(&joined, 0);
  set(&open_job, ++jobs);
  if (get(&sleepers)) {
    __atomic_add_fetch(&bell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, members == helpers + 1 ? INT_MAX : members - 1);
  }
  take_pieces();
  set(&open_job, 0l);
  for (long tries = 0; get(&active); tries++) {
    if (tries > 2000) sched_yield();
    else relax();
  }
  pthread_mutex_unlock(&owner);
}
}  // namespace jc_team
