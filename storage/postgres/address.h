// Where a database is: libpq's URI, taken apart, so that its hosts can be tried one after another.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

struct PgAddress {
  struct Host {
    std::string host;  // a name, or the folder of a socket; empty: libpq's default
    std::string numeric;
    std::string port;
  };
  std::vector<Host> hosts;                                    // at least one
  std::vector<std::pair<std::string, std::string>> settings;  // all others that were given
  std::string shown;  // for people: user, hosts and database, never a password
};

// kInvalidArgument: it is not a URI that libpq takes. The message holds nothing of a password.
Result<PgAddress> ParsePgAddress(const std::string& uri);

// Whether a text is meant as such a URI, and not as a folder.
bool IsPgAddress(const std::string& text);

}  // namespace dfsmr
