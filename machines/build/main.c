#include <stdio.h>

#include "calc.h"

int main(int count, char **arguments) {
  double value;
  if (count != 2) {
    fprintf(stderr, "usage: %s EXPRESSION\n", arguments[0]);
    return 2;
  }
  const int mistake = evaluate(arguments[1], &value);
  if (mistake) {
    fprintf(stderr, "%s: mistake at %d\n", arguments[1], mistake);
    return 1;
  }
  printf("%.10g\n", value);
  return 0;
}
