// One list made of the lists of all partitions, each of which comes in pages. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "storage/store.h"

namespace dfsmr {

// What is known of the list of one partition, from where the page begins that is being made.
struct ListPart {
  struct Item {
    std::string place;  // by which the list is ordered; no two are the same
    size_t bytes = 0;   // that it takes in a page
  };
  std::vector<Item> items;  // ascending
  std::string last;         // all up to here is among them; empty: that is the whole list
};

struct MergedPage {
  struct Item {
    size_t part = 0;  // its number, and that of the item in it
    size_t item = 0;
    friend bool operator==(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
  std::string last;  // the next page begins after it; empty: there is none
  // Those of which more must be known for the page to become longer: ask them on after their
  // `last`, and merge again. Empty: the page is full, or the list ends.
  std::vector<size_t> lacks;
};

// A page of at most `limit` items, and of no more bytes than that unless it is one item. What is
// left out comes with a later page, and nothing comes twice, whatever `lacks` says.
MergedPage Merge(std::span<const ListPart> parts, size_t limit, size_t bytes);

}  // namespace dfsmr
