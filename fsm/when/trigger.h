// A trigger as it is written. Plain values, immutable once read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fsm/base/template.h"
#include "fsm/base/time.h"
#include "fsm/plan/source.h"
#include "fsm/rules/instance.h"
#include "fsm/when/launch.h"

namespace dfsmr {

// Changes of the feed. A filter that is empty takes all.
struct ChangeSource {
  std::vector<ChangeKind> kinds;
  std::vector<std::string> machines;
  std::vector<std::string> nodes;
  std::vector<std::string> transitions;
  std::vector<InstanceResult> results;
  std::vector<std::string> groups;
  std::vector<std::string> causes;
  std::map<std::string, std::string> labels;  // all of them
  bool from_oldest = false;                   // else from its definition on
};

// Items that the workers of an action find.
struct PollSource {
  std::string action;
  Duration every{};          // after the last one has ended
  std::string input = "{}";  // a JSON object without `cursor`
};

// Items that come over HTTP.
struct WebhookSource {
  enum class Proof : uint8_t { kOpen, kHmac, kToken };
  std::string path;  // without the slash in front
  Proof proof = Proof::kOpen;
  // Of kHmac and kToken.
  std::string secret;   // its name
  std::string header;   // in lower case
  std::string prefix;   // what stands before the proof
  bool base64 = false;  // else hex
};

// Where items come from. The numbers of `from` are those of SourceKind.
enum class SourceKind : uint8_t { kChange, kPoll, kWebhook };
struct ItemSource {
  std::string name;  // empty: it is the only one, and has none
  std::variant<ChangeSource, PollSource, WebhookSource> from;
  Written written;

  SourceKind kind() const { return static_cast<SourceKind>(from.index()); }
  const ChangeSource* change() const { return std::get_if<ChangeSource>(&from); }
  const PollSource* poll() const { return std::get_if<PollSource>(&from); }
  const WebhookSource* webhook() const { return std::get_if<WebhookSource>(&from); }
};
inline constexpr size_t kItemSources = 32;  // of one trigger

struct DedupeSource {
  std::string key;  // a text template, without quotes
  Duration window = std::chrono::hours(24);
};

// Items are collected until one of these comes true, or there are kGatheredItems of them.
struct GatherSource {
  std::string by;  // a text template, without quotes; empty: all together
  bool all = false;
  uint64_t count = 0;  // 0: however many
  std::optional<Duration> quiet;
  std::optional<Duration> within;
};
inline constexpr uint64_t kGatheredItems = 1'000;
inline constexpr size_t kGatheredBytes = 1 << 20;

// What a reference leads to, as JSON text; nullopt: to nothing.
using LookUp = std::function<std::optional<std::string>(const Reference&)>;

struct TriggerSource {
  std::vector<ItemSource> on;
  std::function<bool(const LookUp&)> condition;  // its `if`; null: takes all items
  std::optional<DedupeSource> dedupe;
  std::optional<GatherSource> gather;
  LaunchSource launch;
  Written written;

  // Null: there is none of that name. With an empty name the only one, whatever it is called.
  const ItemSource* SourceNamed(std::string_view name) const;
  bool Has(SourceKind kind) const;
};

// The kinds of changes by their names in lower case: "finished". And the kinds that `change` may
// name, in order.
std::string_view Name(ChangeKind kind);
std::span<const std::pair<std::string_view, ChangeKind>> ChangeKindNames();

// Whether changes of the kind tell how an instance or a group has ended: FINISHED, GROUP_FINISHED.
bool TellsResult(ChangeKind kind);
// How; any other change tells kNone.
InstanceResult ResultTold(const Event& change);
// Whether a change of the trigger's namespace passes all filters but the labels, which the change
// does not tell, and the result, unless it tells that itself.
bool Passes(const ChangeSource& source, const Event& change);
// Whether the instance that the change is about passes the rest of them.
bool Passes(const ChangeSource& source, const Event& change, InstanceResult result,
            const std::map<std::string, std::string>& labels);

// What a trigger listens to, in words.
std::string Summary(const TriggerSource& source);

}  // namespace dfsmr
