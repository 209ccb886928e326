#include "calc.h"

static int accept(struct scanner *scanner, char character) {
  if (scanner->token != OTHER || scanner->character != character) return 0;
  scan_next(scanner);
  return 1;
}

static int sum(struct scanner *scanner, double *value);

static int factor(struct scanner *scanner, double *value) {
  if (accept(scanner, '-')) {
    if (!factor(scanner, value)) return 0;
    *value = -*value;
    return 1;
  }
  if (accept(scanner, '(')) return sum(scanner, value) && accept(scanner, ')');
  if (scanner->token != NUMBER) return 0;
  *value = scanner->number;
  scan_next(scanner);
  return 1;
}

static int product(struct scanner *scanner, double *value) {
  double other;
  if (!factor(scanner, value)) return 0;
  for (;;) {
    if (accept(scanner, '*')) {
      if (!factor(scanner, &other)) return 0;
      *value *= other;
    } else if (accept(scanner, '/')) {
      if (!factor(scanner, &other)) return 0;
      *value /= other;
    } else {
      return 1;
    }
  }
}

static int sum(struct scanner *scanner, double *value) {
  double other;
  if (!product(scanner, value)) return 0;
  for (;;) {
    if (accept(scanner, '+')) {
      if (!product(scanner, &other)) return 0;
      *value += other;
    } else if (accept(scanner, '-')) {
      if (!product(scanner, &other)) return 0;
      *value -= other;
    } else {
      return 1;
    }
  }
}

int evaluate(const char *text, double *value) {
  struct scanner scanner = {.rest = text};
  scan_next(&scanner);
  if (sum(&scanner, value) && scanner.token == END) return 0;
  const long read = scanner.rest - text;
  return scanner.token == END ? (int)read + 1 : read > 0 ? (int)read : 1;
}
