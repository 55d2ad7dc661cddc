// libcuda.so.1 for tests of how the driver is called: memory is the host's, everything runs at once, and
// the one kernel adds a number to floats.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int R;
typedef uint64_t P;
typedef struct { void *event; float ms; } Event;
static int captured, capturing;
static void *context, *node[16][4];
static unsigned launches;
#define NEEDS_CONTEXT if (!context) return 201
R cuInit(unsigned flags) { return flags; }
R cuDriverGetVersion(int *v) { *v = 13000; return 0; }
R cuDeviceGetCount(int *n) { *n = 1; return 0; }
R cuDeviceGet(int *d, int i) { *d = i; return i ? 101 : 0; }
R cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "C fake %d", d); return 0; }
R cuDeviceTotalMem_v2(size_t *s, int d) { *s = 1ull << 33; return 0; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : a; return 0; }
R cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)0x1000; return 0; }
R cuCtxSetCurrent(void *c) { context = c; return 0; }
R cuDeviceCanAccessPeer(int *yes, int d, int peer) { *yes = d != peer; return 0; }
R cuCtxEnablePeerAccess(void *c, unsigned flags) { NEEDS_CONTEXT; return c == context ? 217 : flags; }
R cuCtxSynchronize(void) { NEEDS_CONTEXT; return 0; }
R cuMemAlloc_v2(P *p, size_t n) { NEEDS_CONTEXT; *p = (P)aligned_alloc(512, (n + 511) / 512 * 512); return 0; }
R cuMemFree_v2(P p) { free((void *)p); return 0; }
R cuMemAllocAsync(P *p, size_t n, void *s) { return s ? cuMemAlloc_v2(p, n) : 400; }
R cuMemFreeAsync(P p, void *s) { free((void *)p); return s ? 0 : 400; }
R cuMemHostAlloc(void **p, size_t n, unsigned f) { *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096); return 0; }
R cuMemFreeHost(void *p) { free(p); return 0; }
R cuMemcpyHtoDAsync_v2(P to, const void *from, size_t n, void *s) { memcpy((void *)to, from, n); return s ? 0 : 400; }
R cuMemcpyDtoHAsync_v2(void *to, P from, size_t n, void *s) { memcpy(to, (void *)from, n); return s ? 0 : 400; }
R cuMemcpyDtoDAsync_v2(P to, P from, size_t n, void *s) { memmove((void *)to, (void *)from, n); return s ? 0 : 400; }
R cuMemcpyPeerAsync(P to, void *there, P from, void *here, size_t n, void *s) { memmove((void *)to, (void *)from, n); return s && there && here ? 0 : 400; }
R cuMemsetD8Async(P to, unsigned char v, size_t n, void *s) { memset((void *)to, v, n); return s ? 0 : 400; }
R cuStreamCreate(void **s, unsigned f) { *s = malloc(8); return f == 1 ? 0 : 1; }
R cuStreamSynchronize(void *s) { return s ? 0 : 400; }
R cuStreamQuery(void *s) { return s ? 0 : 400; }
R cuStreamWaitEvent(void *s, void *e, unsigned f) { return s && e && !f ? 0 : 400; }
R cuStreamBeginCapture_v2(void *s, int mode) { capturing = 1; captured = 0; return mode == 2 ? 0 : 1; }
R cuStreamEndCapture(void *s, void **g) { capturing = 0; *g = (void *)0x4000; return 0; }
R cuEventCreate(void **e, unsigned f) { *e = malloc(8); return 0; }
R cuEventDestroy_v2(void *e) { free(e); return 0; }
R cuEventRecord(void *e, void *s) { return e && s ? 0 : 400; }
R cuEventQuery(void *e) { return e ? 0 : 400; }
R cuEventSynchronize(void *e) { return e ? 0 : 400; }
R cuEventElapsedTime(float *f, void *a, void *b) { *f = 1.5f; return 0; }
R cuEventElapsedTime_v2(float *f, void *a, void *b) { return cuEventElapsedTime(f, a, b); }
R cuModuleLoadData(void **m, const char *code) { *m = (void *)0x5000; return memcmp(code, "\177ELF\0add", 8) ? 200 : 0; }
R cuModuleGetFunction(void **f, void *m, const char *name) { *f = (void *)0x6000; return strcmp(name, "add") ? 500 : 0; }
R cuFuncSetAttribute(void *f, int a, int v) { return a == 8 && v == 100 << 10 ? 0 : 1; }
static void add(float *x, int n, double number) { for (int i = 0; i < n; i++) x[i] += number; }
R cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                 void *s, void **p, void **extra) {
  if (f != (void *)0x6000 || gx * gy * gz != 6 || bx != 128 || by * bz != 1 || shared != 100 << 10 || !s || extra) return 1;
  if (capturing) {
    node[captured][0] = *(void **)p[0]; memcpy(&node[captured][1], p[1], 4); memcpy(&node[captured++][2], p[2], 8);
    return 0;
  }
  launches++;
  add(*(float **)p[0], *(int *)p[1], *(double *)p[2]);
  return 0;
}
R cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long f) { *x = (void *)0x7000; return g && !f ? 0 : 1; }
R cuGraphLaunch(void *x, void *s) {
  for (int i = 0; i < captured; i++) { int n; double v; memcpy(&n, &node[i][1], 4); memcpy(&v, &node[i][2], 8); add(node[i][0], n, v); }
  return x == (void *)0x7000 && s ? 0 : 400;
}
R cuGraphDestroy(void *g) { return 0; }
R cuGraphExecDestroy(void *x) { return 0; }
R cuGetErrorName(R code, const char **s) { *s = code == 200 ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_OTHER"; return 0; }
#ifdef __linux__
// How cuda.bindings finds the functions.
#include <dlfcn.h>
static R missing(void) { return 801; }
R cuGetProcAddress_v2(const char *name, void **p, int version, uint64_t flags, void *status) {
  char text[200];
  void *own = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (!strcmp(name, "cuGraphInstantiate")) name = "cuGraphInstantiateWithFlags";
  snprintf(text, sizeof text, "%s_v2", name);
  if (!(*p = dlsym(own, text)) && !(*p = dlsym(own, name))) *p = (void *)missing;
  if (status) *(int *)status = 0;
  return 0;
}
R cuGetProcAddress(const char *name, void **p, int version, uint64_t flags) { return cuGetProcAddress_v2(name, p, version, flags, 0); }
#endif
