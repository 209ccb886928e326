#include "dsrv/wire/space_file.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dsrv/wire/replies.h"
#include "fsm/base/diagnostic.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

// JSON, which is YAML.
std::string Text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NumberText(double number) { return nlohmann::json(number).dump(); }

constexpr std::array<std::string_view, 7> kSpaceKeys = {
    "namespace", "description",  "labels", "require_signatures",
    "quotas",    "trusted_keys", "secrets"};
constexpr std::array<std::string_view, 6> kQuotaKeys = {"live_instances",    "ready_tasks",
                                                        "definitions",       "package_bytes",
                                                        "starts_per_second", "retention"};
constexpr std::array<std::string_view, 3> kKeyKeys = {"name", "key", "revoked"};
constexpr std::array<std::string_view, 3> kForceKeys = {"active", "candidate", "percent"};

// Reads the one document of `text`, a map, with `read`.
template <typename Read>
Result<Ok> ReadMapOf(std::string_view text, const std::string& path, Read read) {
  Reporter reporter(path);
  const YamlTree tree = ReadYaml(text, &reporter, OnEmpty::kAccept);
  if (reporter.errors() == 0 && tree.documents.size() > 1) {
    reporter.Error({}, "", "it is one document, not several");
  }
  if (reporter.errors() == 0 && tree.documents.size() == 1 && tree.documents[0].root) {
    const Field root(*tree.documents[0].root, "", &reporter);
    if (ReadMap(root, "keys")) read(root, &reporter);
  }
  for (const Diagnostic& one : std::move(reporter).Take()) {
    if (one.error) return Error{Code::kInvalidArgument, Reason::kBadArchive, Format(one)};
  }
  return Ok{};
}

bool ReadSwitch(const Keys& keys, std::string_view key, bool* out) {
  const auto field = keys.Take(key);
  return field && ReadBoolean(*field, out);
}

void ReadCount(const Keys& keys, std::string_view key, const std::function<void(uint64_t)>& set) {
  const auto field = keys.Take(key);
  int64_t number = 0;
  if (field && ReadInteger(*field, 0, INT64_MAX, &number)) set(static_cast<uint64_t>(number));
}

void ReadQuotas(const Field& field, v1::Quotas* out) {
  if (!ReadMap(field, "{live_instances: 1000}")) return;
  const Keys keys(field, kQuotaKeys, "these are the quotas of a namespace");
  ReadCount(keys, "live_instances", [&](uint64_t n) { out->set_live_instances(n); });
  ReadCount(keys, "ready_tasks", [&](uint64_t n) { out->set_ready_tasks(n); });
  ReadCount(keys, "definitions", [&](uint64_t n) { out->set_definitions(n); });
  ReadCount(keys, "package_bytes", [&](uint64_t n) { out->set_package_bytes(n); });
  double rate = 0;
  if (auto key = keys.Take("starts_per_second"); key && ReadNumber(*key, "a rate", &rate)) {
    out->set_starts_per_second(rate);
  }
  Duration retention{};
  if (auto key = keys.Take("retention"); key && ReadDuration(*key, &retention)) {
    ToProto(retention, out->mutable_retention());
  }
}

void ReadTrustedKeys(const Field& field, std::vector<SpaceFile::Key>* out) {
  if (!field.value.IsList()) return field.Fail("trusted_keys is a list");
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    const Field item = field.Item(i);
    if (!ReadMap(item, "{name: ann, key: \"ssh-ed25519 …\"}")) return;
    const Keys keys(item, kKeyKeys, "a trusted key has name, key and revoked");
    SpaceFile::Key& key = out->emplace_back();
    if (auto name = keys.Take("name")) ReadText(*name, &key.name);
    if (auto line = keys.Take("key")) ReadText(*line, &key.line);
    ReadSwitch(keys, "revoked", &key.revoked);
  }
}

void ReadSpace(const Field& root, SpaceFile* out) {
  const Keys keys(root, kSpaceKeys,
                  "namespace.yaml has namespace, description, labels, require_signatures, quotas, "
                  "trusted_keys and secrets");
  if (auto key = keys.Take("namespace")) ReadText(*key, &out->name);
  if (auto key = keys.Take("description")) ReadText(*key, out->settings.mutable_description());
  if (auto labels = keys.Take("labels"); labels && ReadMap(*labels, "{team: data}")) {
    for (const YamlEntry& entry : labels->value.entries) {
      ReadText(labels->Below(entry), &(*out->settings.mutable_labels())[entry.key]);
    }
  }
  bool require = false;
  if (ReadSwitch(keys, "require_signatures", &require)) {
    out->settings.set_require_signatures(require);
  }
  if (auto key = keys.Take("quotas")) ReadQuotas(*key, out->settings.mutable_quotas());
  if (auto key = keys.Take("trusted_keys")) ReadTrustedKeys(*key, &out->keys);
  const auto secrets = keys.Take("secrets");
  if (!secrets) return;
  if (!secrets->value.IsList()) return secrets->Fail("secrets is a list of names");
  for (size_t i = 0; i < secrets->value.items.size(); ++i) {
    std::string& name = out->secrets.emplace_back();
    ReadName(secrets->Item(i), "secret", &name);
  }
}

std::string QuotasText(const v1::Quotas& quotas) {
  std::string text;
  const auto add = [&text](const char* key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(key) + ": " + value;
  };
  const auto count = [&add](const char* key, bool has, uint64_t number) {
    if (has) add(key, std::to_string(number));
  };
  count("live_instances", quotas.has_live_instances(), quotas.live_instances());
  count("ready_tasks", quotas.has_ready_tasks(), quotas.ready_tasks());
  count("definitions", quotas.has_definitions(), quotas.definitions());
  count("package_bytes", quotas.has_package_bytes(), quotas.package_bytes());
  if (quotas.has_starts_per_second()) {
    add("starts_per_second", NumberText(quotas.starts_per_second()));
  }
  if (quotas.has_retention()) {
    const Duration retention = std::chrono::seconds(quotas.retention().seconds()) +
                               std::chrono::microseconds(quotas.retention().nanos() / 1'000);
    add("retention", FormatDuration(retention));
  }
  return text;
}

}  // namespace

std::string ToYaml(const SpaceFile& file) {
  const v1::NamespaceSettings& settings = file.settings;
  std::string text = "namespace: " + Text(file.name) + "\n";
  if (!settings.description().empty()) {
    text += "description: " + Text(settings.description()) + "\n";
  }
  if (!settings.labels().empty()) {
    text += "labels:\n";
    const std::map<std::string, std::string> labels(settings.labels().begin(),
                                                    settings.labels().end());
    for (const auto& [key, value] : labels) text += "  " + Text(key) + ": " + Text(value) + "\n";
  }
  if (settings.require_signatures()) text += "require_signatures: true\n";
  const std::string quotas = QuotasText(settings.quotas());
  if (!quotas.empty()) text += "quotas: {" + quotas + "}\n";
  if (!file.keys.empty()) text += "trusted_keys:\n";
  for (const SpaceFile::Key& key : file.keys) {
    text += "  - {name: " + Text(key.name) + ", key: " + Text(key.line) +
            (key.revoked ? ", revoked: true" : "") + "}\n";
  }
  if (!file.secrets.empty()) text += "secrets:\n";
  for (const std::string& name : file.secrets) text += "  - " + Text(name) + "\n";
  return text;
}

Result<SpaceFile> ReadSpaceFile(std::string_view text, const std::string& path) {
  SpaceFile file;
  auto read = ReadMapOf(text, path, [&](const Field& root, Reporter*) { ReadSpace(root, &file); });
  if (!read) return read.error();
  return file;
}

std::string ToYaml(const ActiveFile& file) {
  std::string text;
  for (const auto& [package, force] : file) {
    if (force.active.empty()) continue;
    text += Text(package) + ": {active: " + Text(force.active);
    if (!force.candidate.empty()) {
      text += ", candidate: " + Text(force.candidate) +
              ", percent: " + NumberText(static_cast<double>(force.share) / 100);
    }
    text += "}\n";
  }
  return text;
}

Result<ActiveFile> ReadActiveFile(std::string_view text, const std::string& path) {
  ActiveFile file;
  auto read = ReadMapOf(text, path, [&](const Field& root, Reporter* reporter) {
    for (const YamlEntry& entry : root.value.entries) {
      const Field field = root.Below(entry);
      if (!ReadMap(field, "{active: 1.4.0}")) continue;
      const Keys keys(field, kForceKeys, "a package has active, candidate and percent");
      InForce& force = file[entry.key];
      if (auto key = keys.Take("active")) ReadText(*key, &force.active);
      if (force.active.empty())
        reporter->Error(entry.at, entry.key, "the active version is missing");
      if (auto key = keys.Take("candidate")) ReadText(*key, &force.candidate);
      double percent = 0;
      const auto share = keys.Take("percent");
      if (share && ReadNumber(*share, "a percentage", &percent)) {
        if (percent < 0.01 || percent >= 100) share->Fail("it lies between 0.01 and 99.99");
        force.share = static_cast<uint32_t>(std::lround(percent * 100));
      }
      if (force.candidate.empty() != (force.share == 0)) {
        field.Fail("a candidate has its percent, and without one there is none");
      }
    }
  });
  if (!read) return read.error();
  return file;
}

}  // namespace dfsmr
