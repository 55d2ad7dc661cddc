// Clocks around the parts of a program that is profiled: a part that ends -> an event in the buffer that
// the call was given (targets/cpp/runtime/clocked.py). A program that is not profiled has none of this.
#pragma once
#include <time.h>

struct JcEvent {  // times in nanoseconds of the clock that was asked for; own: without the parts inside
  long part, start, end, own;
};
struct JcClocks {
  JcEvent *events;
  long capacity, count;
  long (*late)[2];  // per part: own time and number of those that found no room
  long clock;
};
// Of the thread that runs the entry. Members of a team have none: what runs there is timed from outside.
static __thread JcClocks *jc_clocks;
static __thread long jc_inside;  // time of the parts that ended inside of the one that runs

struct JcTimed {
  long part, outer, start;
  explicit JcTimed(long part) : part(part), outer(jc_inside), start(jc_clocks ? now(jc_clocks) : 0) { jc_inside = 0; }
  ~JcTimed() {
    JcClocks *const c = jc_clocks;
    if (!c) return;
    const long end = now(c), own = end - start - jc_inside;
    jc_inside = outer + end - start;
    if (c->count < c->capacity) c->events[c->count++] = {part, start, end, own};
    else c->late[part][0] += own, c->late[part][1] += 1;
  }
  static long now(const JcClocks *c) {
    timespec t;
    clock_gettime(c->clock, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
  }
};
