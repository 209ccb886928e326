#include "fsm/yaml/item_source.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kSources = {"change", "poll", "webhook"};
constexpr std::array<std::string_view, 9> kChangeKeys = {
    "kind", "machine", "node", "transition", "result", "group", "cause", "labels", "from"};
constexpr std::array<std::string_view, 3> kPollItemKeys = {"action", "every", "input"};
constexpr std::array<std::string_view, 4> kWebhookKeys = {"path", "hmac", "token", "open"};
constexpr std::array<std::string_view, 4> kHmacKeys = {"secret", "header", "prefix", "encoding"};
constexpr std::array<std::string_view, 2> kTokenKeys = {"secret", "header"};
constexpr std::array<std::string_view, 5> kResults = {"success", "warning", "error", "cancelled",
                                                      "aborted"};
constexpr std::array<std::string_view, 2> kEncodings = {"hex", "base64"};
constexpr std::string_view kItemExample = "{change: {kind: finished, machine: build}}";
constexpr size_t kPathMax = 256;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// One of `words` in any case, by its position.
bool ReadAnyCase(const Field& field, std::span<const std::string_view> words, size_t* out) {
  const auto found = std::ranges::find(words, Lower(field.value.text));
  if (!field.value.IsScalar() || found == words.end()) return ReadWord(field, words, out);
  *out = static_cast<size_t>(found - words.begin());
  return true;
}

// A list of things, not empty, or one of them.
template <typename ReadOne>
bool ReadOneOrMore(const Field& field, ReadOne read) {
  if (!field.value.IsList()) return read(field);
  if (field.value.items.empty()) {
    field.Fail("the list is empty, so nothing would match; name one, or leave the key out");
    return false;
  }
  bool sound = true;
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    if (!read(field.Item(i))) sound = false;
  }
  return sound;
}

bool ReadTexts(const std::optional<Field>& field, std::string_view example,
               std::vector<std::string>* to) {
  if (!field) return true;
  return ReadOneOrMore(*field, [&](const Field& one) {
    if (!one.value.IsScalar() || one.value.text.empty()) {
      one.Fail("expected text such as " + std::string(example) + ", not " + Describe(one.value));
      return false;
    }
    to->push_back(one.value.text);
    return true;
  });
}

bool ReadNamesOf(const std::optional<Field>& field, std::string_view what,
                 std::vector<std::string>* to) {
  if (!field) return true;
  return ReadOneOrMore(*field,
                       [&](const Field& one) { return ReadName(one, what, &to->emplace_back()); });
}

bool ReadCauses(const std::optional<Field>& field, std::vector<std::string>* to) {
  if (!field) return true;
  return ReadOneOrMore(*field, [&](const Field& one) {
    constexpr std::string_view kKinds[] = {"schedule:", "trigger:", "limit:", "group:"};
    const std::string& text = one.value.text;
    const bool known = std::ranges::any_of(kKinds, [&](std::string_view kind) {
      return text.size() > kind.size() && text.starts_with(kind);
    });
    if (!one.value.IsScalar() || !known) {
      one.Fail("expected what causes changes, such as schedule:nightly or trigger:push, not " +
               Describe(one.value));
      return false;
    }
    to->push_back(text);
    return true;
  });
}

bool ReadKinds(const std::optional<Field>& field, std::vector<ChangeKind>* to) {
  if (!field) return true;
  std::vector<std::string_view> words;
  for (const auto& [name, kind] : ChangeKindNames()) words.push_back(name);
  return ReadOneOrMore(*field, [&](const Field& one) {
    size_t kind = 0;
    if (!ReadAnyCase(one, words, &kind)) return false;
    to->push_back(ChangeKindNames()[kind].second);
    return true;
  });
}

bool ReadResults(const std::optional<Field>& field, std::vector<InstanceResult>* to) {
  if (!field) return true;
  return ReadOneOrMore(*field, [&](const Field& one) {
    size_t result = 0;
    if (!ReadAnyCase(one, kResults, &result)) return false;
    to->push_back(
        static_cast<InstanceResult>(static_cast<size_t>(InstanceResult::kSuccess) + result));
    return true;
  });
}

bool ReadLabels(const std::optional<Field>& field, std::map<std::string, std::string>* to) {
  if (!field) return true;
  if (!ReadMap(*field, "{branch: main}")) return false;
  bool sound = true;
  for (const YamlEntry& entry : field->value.entries) {
    const Field label = field->Below(entry);
    if (auto problem = NameProblem("label", entry.key)) {
      field->reporter->Error(entry.at, label.path, *problem);
      sound = false;
    }
    if (!ReadText(label, &(*to)[entry.key])) sound = false;
  }
  return sound;
}

bool ReadChange(const Field& field, ChangeSource* to) {
  if (!ReadMap(field, "{kind: finished, machine: build}")) return false;
  const Keys keys(field, kChangeKeys,
                  "a change has kind, machine, node, transition, result, group, cause, labels and "
                  "from");
  bool sound = ReadKinds(keys.Take("kind"), &to->kinds);
  sound = ReadNamesOf(keys.Take("machine"), "machine", &to->machines) && sound;
  sound = ReadTexts(keys.Take("node"), "check", &to->nodes) && sound;
  sound = ReadTexts(keys.Take("transition"), "ok", &to->transitions) && sound;
  sound = ReadResults(keys.Take("result"), &to->results) && sound;
  sound = ReadTexts(keys.Take("group"), "tonight", &to->groups) && sound;
  sound = ReadCauses(keys.Take("cause"), &to->causes) && sound;
  sound = ReadLabels(keys.Take("labels"), &to->labels) && sound;
  if (auto from = keys.Take("from")) {
    static constexpr std::array<std::string_view, 1> kOldest = {"oldest"};
    size_t word = 0;
    to->from_oldest = ReadWord(*from, kOldest, &word);
    sound = to->from_oldest && sound;
  }
  return sound;
}

bool ReadInput(const Field& field, std::string* to) {
  if (!ReadMap(field, "{shop: 7}")) return false;
  if (const YamlEntry* cursor = field.value.Find("cursor")) {
    field.reporter->Error(cursor->at, PathTo(field.path, "cursor"),
                          "the input of a poll has no key 'cursor' of its own: the server puts in "
                          "there what the last poll gave");
    return false;
  }
  *to = field.value.IsNull() ? "{}" : JsonText(field.value);
  return true;
}

bool ReadPoll(const Field& field, PollSource* to) {
  constexpr std::string_view kPoll = "{action: shop.new_orders, every: 30s}";
  if (!field.value.IsMap()) {
    field.Fail("expected a poll such as " + std::string(kPoll) + ", not " + Describe(field.value));
    return false;
  }
  const Keys keys(field, kPollItemKeys, "a poll has action, every and input");
  bool sound = true;
  if (auto action = keys.Take("action")) {
    sound = ReadName(*action, "action", &to->action);
  } else {
    field.Fail("the poll has no 'action'; add the action whose workers look for items, as in " +
               std::string(kPoll));
    sound = false;
  }
  if (auto every = keys.Take("every")) {
    if (!ReadDuration(*every, &to->every)) {
      sound = false;
    } else if (to->every < std::chrono::seconds(1)) {
      every->Fail("expected 1s or more, not " + Describe(every->value));
      sound = false;
    }
  } else {
    field.Fail(
        "the poll has no 'every'; add how long after the last poll the next one comes, as "
        "in " +
        std::string(kPoll));
    sound = false;
  }
  if (auto input = keys.Take("input")) sound = ReadInput(*input, &to->input) && sound;
  return sound;
}

bool ReadPath(const Field& field, std::string* to) {
  const std::string& path = field.value.text;
  bool sound = field.value.IsScalar() && !path.empty() && path.size() <= kPathMax;
  for (size_t begin = 0; sound && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    sound = ValidName(std::string_view(path).substr(begin, end - begin));
    begin = end + 1;
  }
  if (!sound) {
    field.Fail("expected a path of names such as git/push, at most " + std::to_string(kPathMax) +
               " characters, without a slash in front, not " + Describe(field.value));
    return false;
  }
  *to = path;
  return true;
}

bool ReadHeader(const Field& field, std::string* to) {
  constexpr std::string_view kToken = "!#$%&'*+-.^_`|~";
  const std::string& text = field.value.text;
  const bool sound = field.value.IsScalar() && !text.empty() && text.size() <= 128 &&
                     std::ranges::all_of(text, [&](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) ||
                              kToken.find(c) != std::string_view::npos;
                     });
  if (!sound) {
    field.Fail("expected the name of a header such as X-Hub-Signature-256, not " +
               Describe(field.value));
    return false;
  }
  *to = Lower(text);
  return true;
}

// What `hmac` and `token` share: the name of a secret, and the header with the proof.
bool ReadSecret(const Field& field, const Keys& keys, WebhookSource* to) {
  bool sound = true;
  if (auto secret = keys.Take("secret")) {
    sound = ReadName(*secret, "secret", &to->secret);
  } else {
    field.Fail(
        "there is no 'secret'; add the name of the secret that proves who calls: "
        "'secret: git'");
    sound = false;
  }
  if (auto header = keys.Take("header")) {
    sound = ReadHeader(*header, &to->header) && sound;
  } else {
    field.Fail(
        "there is no 'header'; add the header that holds the proof, such as 'header: "
        "X-Hub-Signature-256'");
    sound = false;
  }
  return sound;
}

bool ReadHmac(const Field& field, WebhookSource* to) {
  constexpr std::string_view kHmac =
      "{secret: git, header: X-Hub-Signature-256, prefix: \"sha256=\"}";
  to->proof = WebhookSource::Proof::kHmac;
  if (!field.value.IsMap()) {
    field.Fail("expected a map such as " + std::string(kHmac) + ", not " + Describe(field.value));
    return false;
  }
  const Keys keys(field, kHmacKeys, "an hmac has secret, header, prefix and encoding");
  bool sound = ReadSecret(field, keys, to);
  if (auto prefix = keys.Take("prefix")) sound = ReadText(*prefix, &to->prefix) && sound;
  if (auto encoding = keys.Take("encoding")) {
    size_t word = 0;
    sound = ReadWord(*encoding, kEncodings, &word) && sound;
    to->base64 = word == 1;
  }
  return sound;
}

bool ReadToken(const Field& field, WebhookSource* to) {
  to->proof = WebhookSource::Proof::kToken;
  if (!field.value.IsMap()) {
    field.Fail("expected a map such as {secret: git, header: X-Token}, not " +
               Describe(field.value));
    return false;
  }
  const Keys keys(field, kTokenKeys, "a token has secret and header");
  return ReadSecret(field, keys, to);
}

bool ReadOpen(const Field& field, WebhookSource* to) {
  bool open = false;
  to->proof = WebhookSource::Proof::kOpen;
  if (!ReadBoolean(field, &open)) return false;
  if (!open) field.Fail("a webhook that is not open has hmac or token; leave 'open' out");
  return open;
}

bool ReadWebhook(const Field& field, WebhookSource* to) {
  if (!field.value.IsMap()) {
    field.Fail(
        "expected a webhook such as {path: git/push, token: {secret: git, header: X-Token}}"
        ", not " +
        Describe(field.value));
    return false;
  }
  const Keys keys(field, kWebhookKeys, "a webhook has path, and one of hmac, token and open");
  bool sound = true;
  if (auto path = keys.Take("path")) {
    sound = ReadPath(*path, &to->path);
  } else {
    field.Fail("the webhook has no 'path'; add one of names: 'path: git/push'");
    sound = false;
  }
  const auto hmac = keys.Take("hmac");
  const auto token = keys.Take("token");
  const auto open = keys.Take("open");
  if (hmac.has_value() + token.has_value() + open.has_value() != 1) {
    field.Fail(
        "a webhook says how a caller proves who it is, with one of hmac and token, or that "
        "anybody may call: 'open: true'");
    return false;
  }
  if (hmac) return ReadHmac(*hmac, to) && sound;
  if (token) return ReadToken(*token, to) && sound;
  return ReadOpen(*open, to) && sound;
}

bool ReadSource(const Field& field, ItemSource* to) {
  to->written = {field.key_at, field.path};
  const Keys keys(field, kSources, "items come from one of change, poll and webhook");
  std::optional<size_t> found;
  for (size_t i = 0; i < kSources.size(); ++i) {
    const auto one = keys.Take(kSources[i]);
    if (one && found) {
      one->reporter->Error(one->key_at, one->path,
                           "several sources have names of their own: {a: {change: …}, b: {poll: "
                           "…}}");
      return false;
    }
    if (one) found = i;
  }
  if (!found) {
    field.Fail("expected one of change, poll and webhook, as in " + std::string(kItemExample));
    return false;
  }
  const Field from = *keys.Take(kSources[*found]);
  switch (static_cast<SourceKind>(*found)) {
    case SourceKind::kChange:
      return ReadChange(from, &to->from.emplace<ChangeSource>());
    case SourceKind::kPoll:
      return ReadPoll(from, &to->from.emplace<PollSource>());
    case SourceKind::kWebhook:
      break;
  }
  return ReadWebhook(from, &to->from.emplace<WebhookSource>());
}

// Whether a map is one source, and not several with names.
bool IsOne(const YamlNode& map) {
  return std::ranges::any_of(map.entries, [](const YamlEntry& entry) {
    const bool word = std::ranges::find(kSources, entry.key) != kSources.end();
    const bool named =
        entry.value->IsMap() && entry.value->entries.size() == 1 &&
        std::ranges::find(kSources, entry.value->entries.front().key) != kSources.end();
    return word && !named;
  });
}

}  // namespace

bool ReadItemSources(const Field& field, std::vector<ItemSource>* to) {
  if (!field.value.IsMap() || field.value.entries.empty()) {
    field.Fail("expected what the trigger listens to, such as " + std::string(kItemExample) +
               ", not " + (field.value.IsMap() ? "an empty map" : Describe(field.value)));
    return false;
  }
  if (IsOne(field.value)) return ReadSource(field, &to->emplace_back());
  if (field.value.entries.size() > kItemSources) {
    field.Fail("a trigger has at most " + std::to_string(kItemSources) + " sources");
    return false;
  }
  bool sound = true;
  for (const YamlEntry& entry : field.value.entries) {
    const Field one = field.Below(entry);
    ItemSource& source = to->emplace_back();
    source.name = entry.key;
    if (auto problem = NameProblem("source", entry.key)) {
      field.reporter->Error(entry.at, one.path, *problem);
      sound = false;
    }
    const std::string hint = Hint(entry.key, kSources);
    const bool has_source = std::ranges::any_of(one.value.entries, [](const YamlEntry& below) {
      return std::ranges::find(kSources, below.key) != kSources.end();
    });
    if (!one.value.IsMap() || (!hint.empty() && !has_source)) {
      field.reporter->Error(entry.at, one.path,
                            "expected one of change, poll and webhook, or a source with a name: "
                            "'NAME: " +
                                std::string(kItemExample) + "'" + hint);
      sound = false;
      continue;
    }
    if (!ReadSource(one, &source)) sound = false;
  }
  return sound;
}

}  // namespace dfsmr
