#include "calc.h"

#include <ctype.h>
#include <stdlib.h>

void scan_next(struct scanner *scanner) {
  while (isspace((unsigned char)*scanner->rest)) scanner->rest++;
  if (*scanner->rest == '\0') {
    scanner->token = END;
  } else if (isdigit((unsigned char)*scanner->rest)) {
    char *end;
    scanner->token = NUMBER;
    scanner->number = strtod(scanner->rest, &end);
    scanner->rest = end;
  } else {
    scanner->token = OTHER;
    scanner->character = *scanner->rest++;
  }
}
