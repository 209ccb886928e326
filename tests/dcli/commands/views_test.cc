#include "dcli/commands/views.h"

#include <doctest/doctest.h>

namespace dfsmr::cli {
namespace {

TEST_CASE("a value with spaces is quoted again") {
  CHECK(FilterOf({"error:no space left", "machine:order"}) ==
        "error:\"no space left\" machine:order");
  CHECK(FilterOf({"disk 7 is full"}) == "\"disk 7 is full\"");
  CHECK(FilterOf({"error:disk full: /dev/sda"}) == "error:\"disk full: /dev/sda\"");
}

TEST_CASE("several terms in one word are several terms") {
  CHECK(FilterOf({"label.q:z state:stopped"}) == "label.q:z state:stopped");
  CHECK(FilterOf({"machine:order -node:pay", "is:held"}) == "machine:order -node:pay is:held");
}

}  // namespace
}  // namespace dfsmr::cli
