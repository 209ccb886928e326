/* A calculator of sums and products: 2 * (3 + 4). */
#ifndef CALC_H
#define CALC_H

enum token { END, NUMBER, OTHER };

struct scanner {
  const char *rest;   /* what has not been read */
  enum token token;   /* what was read last */
  char character;     /* of OTHER */
  double number;      /* of NUMBER */
};

void scan_next(struct scanner *scanner);

/* Sets *value to what the text comes to; returns 0, or the place of the mistake from 1 on. */
int evaluate(const char *text, double *value);

#endif
