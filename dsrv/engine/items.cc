#include "dsrv/engine/items.h"

#include <algorithm>
#include <cctype>

#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/when/calendar.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

// Writes an object, member by member.
class Object {
 public:
  void Add(std::string_view name, std::string_view json) {
    text_ += text_.size() > 1 ? "," : "";
    text_ += json::Quote(name);
    text_ += ':';
    text_ += json;
  }
  void AddText(std::string_view name, std::string_view text) {
    if (!text.empty()) Add(name, json::Quote(text));
  }
  void AddNumber(std::string_view name, uint64_t number) {
    if (number != 0) Add(name, std::to_string(number));
  }
  std::string Take() && { return std::move(text_) + "}"; }

 private:
  std::string text_ = "{";
};

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

std::string LabelsOf(const Spec& spec) {
  Object labels;
  for (const auto& [name, value] : spec.labels) labels.Add(name, json::Quote(value));
  return std::move(labels).Take();
}

std::string OutputsOf(const Instance& instance, const rows::Reader& reader) {
  Object outputs;
  auto all = rows::GetOutputs(reader, instance);
  if (!all) return "{}";
  for (const auto& [node, output] : *all) outputs.Add(node, output);
  return std::move(outputs).Take();
}

std::string InstanceItem(const Event& change, Resident* resident, Residents& residents,
                         const rows::Reader& reader) {
  Object item;
  item.Add("id", json::Quote(change.instance));
  if (!resident) return std::move(item).Take();
  const Instance& instance = resident->instance;
  item.Add("machine", json::Quote(instance.machine));
  item.Add("state", json::Quote(Name(instance.state)));
  item.Add("result", json::Quote(Name(instance.result)));
  auto spec = residents.SpecOf(*resident);
  const std::string params = spec && !(*spec)->params.empty() ? (*spec)->params : "{}";
  const std::string outputs = OutputsOf(instance, reader);
  if (params.size() <= limits::kJson) item.Add("params", params);
  if (params.size() + outputs.size() <= limits::kJson) item.Add("outputs", outputs);
  item.Add("labels", spec ? LabelsOf(**spec) : "{}");
  item.Add("error", json::Quote(instance.error));
  return std::move(item).Take();
}

std::string PackageItem(const Event::Package& package) {
  Object item;
  item.AddText("name", package.name);
  item.AddText("version", package.version);
  item.AddText("digest", package.digest);
  return std::move(item).Take();
}

// The value of `text`, an object that this file wrote.
std::string TextAt(std::string_view text, std::string_view name) {
  auto member = json::Member(text, name);
  return member ? json::Unquote(*member) : "";
}

Result<std::string> Below(const Reference& reference, std::string_view value, size_t skip,
                          const std::string& what) {
  const auto path = std::span(reference.parts).subspan(skip);
  auto found = Find(value, path);
  if (found) return std::string(*found);
  return Missing(reference, what + " has no " + PathText(path));
}

Result<std::string> TriggerValue(std::string_view name, const Given& given, uint64_t number,
                                 const Reference& reference) {
  const std::string member = reference.parts.size() == 2 ? reference.parts[1].key : "";
  if (member == "name") return json::Quote(name);
  if (member == "time") return json::Quote(UtcText(given.time));
  if (member == "on") return json::Quote(given.last().source);
  if (member == "number" && number != 0) return std::to_string(number);
  if (member == "key" && number != 0) return json::Quote(given.key);
  return Missing(reference, "a trigger has name, time, on, number and key");
}

}  // namespace

// Names are those of the JSON mapping of Change; a name of several words is there as it stands in
// the proto, too.
std::string ChangeItem(const Event& change, PartitionId partition, Resident* resident,
                       Residents& residents, const rows::Reader& reader) {
  static const Event::About kNothing;
  const Event::About& about = change.about ? *change.about : kNothing;
  Object item;
  item.AddNumber("partition", partition);
  item.AddNumber("seq", change.seq);
  item.AddText("time", UtcText(change.time));
  item.AddText("kind", Upper(Name(change.kind)));
  item.AddText("namespace", change.ns);
  item.AddText("machine", change.machine);
  item.AddNumber("version", change.version);
  if (!change.instance.empty()) {
    item.Add("instance", InstanceItem(change, resident, residents, reader));
  }
  item.AddText("prevNode", change.prev_node);
  item.AddText("prev_node", change.prev_node);
  item.AddText("node", change.node);
  item.AddText("transition", change.transition);
  item.AddNumber("visit", change.visit);
  item.AddNumber("attempt", change.attempt);
  item.AddText("client", change.client);
  if (!change.params.empty() && change.params.size() <= limits::kJson / 2) {
    item.Add("params", change.params);
  }
  item.AddText("note", change.note);
  item.AddText("errorKind", change.error_kind);
  item.AddText("error_kind", change.error_kind);
  if (change.begin_time != Timestamp()) {
    item.AddText("beginTime", UtcText(change.begin_time));
    item.AddText("begin_time", UtcText(change.begin_time));
  }
  if (change.package) item.Add("package", PackageItem(*change.package));
  item.AddText("cause", about.cause);
  item.AddText("group", about.group);
  item.AddText("outcome", about.outcome);
  item.AddText("occurrence", about.occurrence);
  return std::move(item).Take();
}

uint32_t Given::depth() const {
  return std::ranges::max_element(items, {}, &rows::GatheredItem::depth)->depth;
}

std::string Given::Item() const {
  if (!gathered) return last().item;
  std::string list = "[";
  for (const rows::GatheredItem& one : items) {
    if (list.size() > 1) list += ',';
    list += one.item;
  }
  return list + "]";
}

std::string Given::Rest() const {
  std::string sources = "[";
  for (const rows::GatheredItem& one : items) {
    if (sources.size() > 1) sources += ',';
    sources += json::Quote(one.source);
  }
  Object rest;
  rest.Add("on", sources + "]");
  rest.Add("depth", std::to_string(depth()));
  rest.Add("gathered", gathered ? "true" : "false");
  rest.Add("key", json::Quote(key));
  if (!deduped) rest.Add("deduped", "false");
  return std::move(rest).Take();
}

Given ReadGiven(const std::string& item, const std::string& rest, Timestamp time) {
  Given given;
  given.time = time;
  given.gathered = json::Member(rest, "gathered") == "true";
  given.key = TextAt(rest, "key");
  given.deduped = json::Member(rest, "deduped") != "false";
  const auto depth = json::Member(rest, "depth");
  const auto deep =
      static_cast<uint32_t>(std::strtoul(std::string(depth.value_or("0")).c_str(), nullptr, 10));
  json::ForEachItem(json::Member(rest, "on").value_or("[]"), [&](std::string_view source) {
    given.items.push_back({json::Unquote(source), "null", deep});
    return true;
  });
  if (given.items.empty()) given.items.push_back({"", "null", deep});
  if (!given.gathered) {
    given.items.front().item = item;
    return given;
  }
  size_t next = 0;
  json::ForEachItem(item, [&](std::string_view one) {
    if (next < given.items.size()) given.items[next++].item = one;
    return true;
  });
  return given;
}

Resolver ResolverOf(std::string_view name, const Given& given, uint64_t number) {
  return [name, &given, number](const Reference& reference) -> Result<std::string> {
    const std::string& root = reference.parts.front().key;
    if (root == "item") return Below(reference, given.last().item, 1, "the item");
    if (root == "trigger") return TriggerValue(name, given, number, reference);
    if (!given.gathered) return Missing(reference, "nothing was gathered");
    if (root == "items") return Below(reference, given.Item(), 1, "the list of items");
    const std::string source = reference.parts.size() > 1 ? reference.parts[1].key : "";
    auto last = std::ranges::find(given.items.rbegin(), given.items.rend(), source,
                                  &rows::GatheredItem::source);
    if (root != "last" || last == given.items.rend()) {
      return Missing(reference, "no item of " + source + " has come");
    }
    return Below(reference, last->item, 2, "the last item of " + source);
  };
}

}  // namespace dfsmr
