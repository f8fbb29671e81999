// Two threads of a region write the same number: what ThreadSanitizer is to report (support/team.c).
#include <cstdio>

int main() {
  int races_here = 0;
#pragma omp parallel num_threads(2)
  ++races_here;
  std::printf("%d\n", races_here);
  return 0;
}
