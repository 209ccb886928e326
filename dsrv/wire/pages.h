// Pages of lists. A page token names the last item of a page, and is valid for the same filters
// only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

std::string PageToken(const std::string& filters, const std::string& last);
Error MalformedToken();
Result<std::string> ParsePageToken(const std::string& filters, const std::string& token);
std::string FiltersOf(const v1::ListInstancesRequest& request);
std::string FiltersOf(const v1::ListMachinesRequest& request);
// Where a machine stands in its list.
std::string PlaceOf(const v1::Machine& machine);
Result<size_t> ToPageSize(int32_t given);

// Of a list that is in order of time in each partition a server makes one list. Then it has to know
// where each item of a page stands, and asks for that with this sign in front of the last place.
// The next page's token holds what it asks for. A place begins with the time, as sixteen
// hexadecimal digits.
inline constexpr char kTellsPlaces = '*';
struct PlacesOfPage {
  std::vector<std::string> items;
  std::string last;  // the next page begins after it; empty: there is none
};
std::string TextOf(const PlacesOfPage& places);
std::optional<PlacesOfPage> PlacesIn(const std::string& text);
// Takes the sign off. False: there is none.
bool TakeTellsPlaces(std::string* after);

}  // namespace dfsmr
