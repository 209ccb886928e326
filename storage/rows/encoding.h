// Conversions between values and records that several sources of this folder need.
#pragma once

#include <functional>
#include <optional>

#include "fsm/rules/group.h"
#include "record.pb.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "storage/rows/resting.h"
#include "storage/rows/stats.h"

namespace dfsmr::rows {

// Whether the token's state is a known one. Arrays are indexed by states, so an unknown number must
// be refused as damage.
inline bool Sound(const record::Token& in) {
  return in.state() <= static_cast<uint32_t>(TokenState::kDone);
}
void Encode(const Token& token, const Machine& machine, record::Token* out);
Token Decode(const record::Token& in);  // except for its node

void Encode(const ChildCounts& children, record::Children* out);
ChildCounts Decode(const record::Children& in);

// By Decode as it was: also of one that is a difference.
void Encode(const GroupCounts& counts, record::GroupShare* out);
GroupCounts Decode(const record::GroupShare& in);

void Encode(const LimitAsk& ask, record::LimitAsk* out);
LimitAsk Decode(const record::LimitAsk& in);
void Encode(const InstanceLimits& limits, record::InstanceLimits* out);
InstanceLimits Decode(const record::InstanceLimits& in);
void Encode(const TokenLimits& limits, record::TokenLimits* out);
TokenLimits Decode(const record::TokenLimits& in);
void Encode(const RunsOn& runs_on, record::RunsOn* out);
RunsOn Decode(const record::RunsOn& in);
// The key of a singleton, as it was written before there were limits.
LimitKey SingletonKey(std::string key);

void Encode(const Answer& answer, record::Answer* out);
Answer Decode(const record::Answer& in);

// The instance in a row, with the tokens that have rows of their own.
Result<Instance> DecodeInstance(const Reader& reader, InstanceName name, std::string_view key,
                                std::string_view value, const Resolve& resolve);

// The one in the row of a live instance, without namespace and id; nullopt: it does not rest.
std::optional<Resting> RestingIn(std::string_view value);

// The records of a page as they are encoded, until `visit` returns false.
Result<Ok> VisitEncoded(const FeedPage& page,
                        const std::function<bool(uint64_t seq, std::string_view record)>& visit);

void Encode(const Pace& pace, record::Pace* out);
Pace Decode(const record::Pace& in);
Result<StatsRow> DecodeStats(std::string_view key, std::string_view value);

void Add(const StoppedCounts& more, StoppedCounts* to);
// So many times what is more, modulo 2^64.
void Add(const GroupCounts& more, uint64_t by, GroupCounts* to);
// What a row says of stopped instances that were dropped.
Result<DroppedCounts> DroppedIn(std::string_view key, std::string_view value);

// Writes the rows of the steps that have changed.
void PutSteps(const Writer& writer, const Instance& instance, const Machine& machine);

}  // namespace dfsmr::rows
