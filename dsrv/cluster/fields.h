// How fields of the same message are joined that come from several partitions. Fields are given by
// name; each is a number, a time or a duration.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <initializer_list>
#include <map>

namespace dfsmr {

using FieldNames = std::initializer_list<const char*>;

// Numbers only.
void AddNumbers(const google::protobuf::Message& part, FieldNames names,
           google::protobuf::Message* sum);
void AddDurations(const google::protobuf::Message& part, FieldNames names,
                  google::protobuf::Message* sum);
// What is absent is not greater than anything, and not less.
void TakeGreater(const google::protobuf::Message& part, FieldNames names,
                 google::protobuf::Message* sum);
void TakeLess(const google::protobuf::Message& part, FieldNames names,
              google::protobuf::Message* sum);

// The rows of the part, each added to the one with the same key; without one they are new.
template <typename Rows, typename KeyOf, typename AddOne>
void AddRows(const Rows& part, KeyOf key_of, AddOne add, Rows* sum) {
  std::map<decltype(key_of(*part.begin())), int> places;
  for (int i = 0; i < sum->size(); ++i) places.emplace(key_of(sum->Get(i)), i);
  for (const auto& row : part) {
    const auto found = places.find(key_of(row));
    if (found == places.end()) {
      *sum->Add() = row;
    } else {
      add(row, sum->Mutable(found->second));
    }
  }
}

}  // namespace dfsmr
