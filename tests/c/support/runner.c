/* main() of the test programs: lists and runs the cases of tests/c/check.h. */
#define _POSIX_C_SOURCE 200112L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../check.h"

static check_case *first_case, **last_case = &first_case;
static int failures, skipped; /* of the running case */
static const char* const usage =
    "usage: %s [--list | NAME...]\n"
    "Runs the cases named: FILE.CASE, or FILE for all of a file; without a name, all.\n"
    "Returns 0 when all pass, 1 when one fails, 2 for a name that does not exist, 77 when nothing but skips ran.\n";

enum { kMostMessages = 30 };

void check_register(check_case* added) {
  *last_case = added;
  last_case = &added->next;
}

void check_failed(const char* file, int line, const char* condition, const char* values) {
  const int number = __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
  if (number > kMostMessages) return;
  fflush(stdout);
  if (values && *values)
    fprintf(stderr, "%s:%d: not true: %s\n    with %s\n", file, line, condition, values);
  else
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
  if (number == kMostMessages) fprintf(stderr, "further failures of this case are counted, not printed\n");
}

void check_count_failure(void) { __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED); }

void check_skip(const char* why) {
  printf("skipped: %s\n", why);
  skipped = 1;
}

/* "opencl_conv" of ".../tests/c/test_opencl_conv.cpp" */
static void file_of(const check_case* each, char* out, size_t size) {
  const char* name = strrchr(each->file, '/');
  name = name ? name + 1 : each->file;
  if (!strncmp(name, "test_", 5)) name += 5;
  snprintf(out, size, "%.*s", (int)strcspn(name, "."), name);
}

static int is_named(const check_case* each, const char* wanted) {
  char file[200], full[400];
  file_of(each, file, sizeof file);
  snprintf(full, sizeof full, "%s.%s", file, each->name);
  return !strcmp(wanted, file) || !strcmp(wanted, full);
}

static void run(const check_case* each) {
  if (each->call)
    each->call(each->body);
  else
    each->body();
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char** arguments) {
  int i, ran = 0, failed = 0, skips = 0;
  const check_case *each, *setup;
  char file[200];
  if (count == 2 && !strcmp(arguments[1], "--list")) {
    for (each = first_case; each; each = each->next) {
      if (!each->name) continue;
      file_of(each, file, sizeof file);
      printf("%s.%s\n", file, each->name);
    }
    return 0;
  }
  for (i = 1; i < count; i++) {
    int found = 0;
    for (each = first_case; each; each = each->next) found |= each->name && is_named(each, arguments[i]);
    if (!found) {
      fprintf(stderr, "%s: there is no case %s\n", arguments[0], arguments[i]);
      fprintf(stderr, usage, arguments[0]);
      return 2;
    }
  }
  for (each = first_case; each; each = each->next) {
    int wanted = count == 1;
    double start;
    if (!each->name) continue;
    for (i = 1; i < count; i++) wanted |= is_named(each, arguments[i]);
    if (!wanted) continue;
    failures = skipped = 0;
    start = seconds();
    for (setup = first_case; setup; setup = setup->next)
      if (!setup->name && !strcmp(setup->file, each->file)) run(setup);
    if (!failures && !skipped) run(each);
    file_of(each, file, sizeof file);
    printf("%s %s.%s (%.2f s)",
           failures  ? "FAILED"
           : skipped ? "skipped"
                     : "passed",
           file, each->name, seconds() - start);
    if (failures) printf(": %d failures", failures);
    printf("\n");
    fflush(stdout);
    ran++;
    failed += failures != 0;
    skips += !failures && skipped;
  }
  if (ran > 1) printf("%d cases, %d failed, %d skipped\n", ran, failed, skips);
  return failed ? 1 : skips && skips == ran ? 77 : 0;
}
