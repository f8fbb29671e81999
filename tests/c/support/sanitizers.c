/* What the sanitizers ask a program for; linked into every test of a build with PYLAYOUT_SANITIZE. */

/* Asking for absurdly much memory is a test, not a mistake: the answer is "none", not the end of the program.
 * Without intercept_tls_get_addr=0 the leak check of GCC before 14 now and then dies at exit ("Tracer caught signal
 * 11"): it takes a thread's storage for a loaded library, where that begins 16 bytes into a page, to have a header of
 * glibc before 2.25 and follows it (https://github.com/Mudlet/Mudlet/pull/9930). That storage is found through other
 * pointers. */
__attribute__((visibility("default"))) const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "allocator_may_return_null=1:intercept_tls_get_addr=0"; }
__attribute__((visibility("default"))) const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "allocator_may_return_null=1"; }

/* oneDNN is not built for ThreadSanitizer, which therefore misses how it synchronises (guards of static variables) and
 * takes what it does right for races. The OpenMP runtime is team.c. */
__attribute__((visibility("default"))) const char* __tsan_default_suppressions(void);
const char* __tsan_default_suppressions(void) { return "race:libdnnl.so\n"; }

/* What PoCL and its compiler keep to the end when they compile, which they do where their cache is empty. */
__attribute__((visibility("default"))) const char* __lsan_default_suppressions(void);
const char* __lsan_default_suppressions(void) {
  return "leak:libpocl.so\n"
         "leak:libLLVM\n";
}
