// Parted calls without servers: each question is answered by a function.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dsrv/cluster/parted.h"

namespace dfsmr {

template <typename Message>
Message Parsed(const std::string& bytes) {
  Message message;
  CHECK(message.ParseFromString(bytes));
  return message;
}

template <typename Message>
PartAnswer Replied(const Message& reply) {
  return {.reply = reply.SerializeAsString()};
}

inline PartAnswer Failed(grpc::StatusCode code, const std::string& reason = "") {
  return {.status = grpc::Status(code, "failed"), .reason = reason, .server = "b"};
}

struct Driven {
  CallEnd end;
  int rounds = 0;
  int questions = 0;
};

using Answers = std::function<PartAnswer(PartitionId partition, const std::string& request)>;

// Answers come in the reverse order of their questions.
inline Driven Drive(PartedCall& call, const Answers& answer) {
  Driven driven;
  for (auto asked = call.Next(); !asked.empty(); asked = call.Next()) {
    ++driven.rounds;
    driven.questions += static_cast<int>(asked.size());
    for (size_t i = asked.size(); i-- > 0;) {
      call.Take(i, answer(asked[i].partition, asked[i].request));
    }
  }
  driven.end = call.End();
  return driven;
}

template <typename Reply, typename Request>
Reply Ask(const std::string& method, const Request& request, const Parting& parting,
          const Answers& answer) {
  const auto call = MakeParted("/" + method, request.SerializeAsString(), parting);
  REQUIRE(call);
  const auto driven = Drive(*call, answer);
  REQUIRE(!driven.end.as_question);
  REQUIRE(!driven.end.refused);
  return Parsed<Reply>(driven.end.reply);
}

}  // namespace dfsmr
