#include "dsrv/engine/limit_numbers.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/residents.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr Duration kSaveEvery = std::chrono::milliseconds(900);
constexpr size_t kNote = 1'024;
constexpr size_t kRefreshedAtOnce = 1'000;

// Whether that changes anything.
bool Put(std::set<std::string>* keys, const std::string& key, bool in) {
  return in ? keys->insert(key).second : keys->erase(key) > 0;
}

}  // namespace

std::optional<std::string_view> CountedCause(const Provenance& provenance) {
  if (provenance.cause.empty() || provenance.backfill) return std::nullopt;
  return provenance.cause;
}

Result<Ok> LimitNumbersBook::Recover() {
  auto done = rows::ScanLimitOverrides(
      turn_.reader(), [&](std::string_view ns, std::string_view key, rows::LimitOverride row) {
        overrides_[ResidentKey(ns, key)] = std::move(row);
      });
  if (!done) return done;
  std::vector<std::pair<std::string, std::string>> names;
  done =
      rows::ScanAllDocuments(turn_.reader(), [&](rows::DocumentName name, rows::DocumentHead head) {
        if (name.kind == DocumentKind::kLimit && !head.deleted)
          names.emplace_back(name.ns, name.name);
      });
  if (!done) return done;
  for (const auto& [ns, name] : names) {
    auto found = documents_.Find({ns, DocumentKind::kLimit, name});
    if (!found) return found.error();
    Govern(ns, name, std::get<std::shared_ptr<const LimitSource>>(found->document->body));
  }
  done = rows::ScanLimitRates(turn_.reader(),
                              [&](std::string_view ns, std::string_view key, Timestamp at) {
                                Keep(ResidentKey(ns, key), at);
                                if (at > turn_.clock()) {
                                  table_.RestoreFullAt(ns, key, at);
                                  table_.Tidy(ns, key, turn_.clock());  // to be forgotten by then
                                }
                              });
  if (!done) return done;
  done = rows::ScanLimitAskers(
      turn_.reader(), [&](std::string_view ns, std::string_view key, const LimitNumbers& numbers) {
        askers_.insert(ResidentKey(ns, key));
        table_.SetAsker(ns, key, numbers);
      });
  if (!done) return done;
  unswept_ = !askers_.empty();
  for (const auto& [key, override] : overrides_) {
    const auto [ns, name] = SplitKey(key);
    Refresh(ns, name);
  }
  return Ok{};
}

// The numbers that count ------------------------------------------------------------------------

const LimitNumbersBook::Governing* LimitNumbersBook::DocumentOf(const std::string& ns,
                                                                const std::string& key) const {
  auto found = documents_by_root_.find(ResidentKey(ns, key));
  if (found == documents_by_root_.end() && BuiltInOf(key) == BuiltIn::kNone) {
    found = documents_by_root_.find(ResidentKey(ns, key.substr(0, key.find('/'))));
  }
  return found == documents_by_root_.end() ? nullptr : &found->second;
}

const rows::LimitOverride* LimitNumbersBook::OverrideOf(const std::string& ns,
                                                        const std::string& key) const {
  auto found = overrides_.find(ResidentKey(ns, key));
  return found == overrides_.end() ? nullptr : &found->second;
}

LimitStanding LimitNumbersBook::StandingOf(const std::string& ns, const std::string& key) const {
  LimitStanding standing;
  const auto take = [&standing](const LimitNumbers& numbers, LimitOrigin from) {
    if (numbers.max) {
      standing.numbers.max = numbers.max;
      standing.max_from = from;
    }
    if (!numbers.rate) return;
    standing.numbers.rate = numbers.rate;
    standing.rate_from = from;
  };
  take(table_.AskerOf(ns, key), LimitOrigin::kAsker);
  if (const Governing* governing = DocumentOf(ns, key)) {
    standing.document = governing->name;
    take(governing->source->numbers, LimitOrigin::kDocument);
    auto own = governing->source->keys.find(key);
    if (own != governing->source->keys.end()) take(own->second, LimitOrigin::kDocument);
  }
  const rows::LimitOverride* override = OverrideOf(ns, key);
  if (!override) return standing;
  take({override->max, override->rate}, LimitOrigin::kOverride);
  if (override->no_max) {
    standing.numbers.max.reset();
    standing.max_from = LimitOrigin::kOverride;
  }
  if (override->no_rate) {
    standing.numbers.rate.reset();
    standing.rate_from = LimitOrigin::kOverride;
  }
  return standing;
}

void LimitNumbersBook::Refresh(const std::string& ns, const std::string& key) {
  const LimitStanding standing = StandingOf(ns, key);
  const LimitNumbers& numbers = standing.numbers;
  if (BuiltInOf(key) != BuiltIn::kNone) {
    const std::string full = ResidentKey(ns, key);
    const bool limited = (numbers.max && standing.max_from > LimitOrigin::kAsker) ||
                         (numbers.rate && standing.rate_from > LimitOrigin::kAsker);
    SetTracked(full, limited, asked_for_.contains(full));
    if (limited) return SetNumbers(ns, key, numbers);
  }
  if (table_.Knows(ns, key)) SetNumbers(ns, key, numbers);
}

void LimitNumbersBook::SetTracked(const std::string& full, bool has_number, bool asked_for) {
  const bool asked_changed = Put(&asked_for_, full, asked_for);
  const bool number_changed = Put(&numbered_, full, has_number);
  Put(&tracked_, full, has_number || asked_for);
  if (number_changed || (asked_changed && !has_number)) ++tracked_changes_;
}

void LimitNumbersBook::Follow(const std::string& ns, const std::string& key, bool follow) {
  const std::string full = ResidentKey(ns, key);
  SetTracked(full, HasNumber(full), follow);
}

void LimitNumbersBook::Track(const std::string& ns, const std::string& key, bool has_number,
                             bool followed) {
  SetTracked(ResidentKey(ns, key), has_number, followed);
}

void LimitNumbersBook::SetNumbers(const std::string& ns, const std::string& key,
                                  const LimitNumbers& numbers) {
  const auto full_at = table_.FullAt(ns, key, turn_.clock());
  table_.SetNumbers(ns, key, numbers, turn_.clock());
  if (table_.FullAt(ns, key, turn_.clock()) != full_at) SaveLater(ns, key);
}

void LimitNumbersBook::Asked(const std::string& ns, const LimitKey& key) {
  // A built-in key that is asked for by itself has none.
  if (key.numbers != LimitNumbers()) SetAsker(ns, key);
  SetNumbers(ns, key.key, StandingOf(ns, key.key).numbers);
}

void LimitNumbersBook::Stands(const std::string& ns, const LimitKey& key) {
  if (table_.AskerOf(ns, key.key) == LimitNumbers()) return Asked(ns, key);
  SetNumbers(ns, key.key, StandingOf(ns, key.key).numbers);
}

// As long as all ask with the same numbers, who stands for the key tells them.
void LimitNumbersBook::SetAsker(const std::string& ns, const LimitKey& key) {
  const LimitNumbers before = table_.AskerOf(ns, key.key);
  if (before == key.numbers) return;
  table_.SetAsker(ns, key.key, key.numbers);
  const std::string full = ResidentKey(ns, key.key);
  if (before != LimitNumbers()) {
    askers_.insert(full);
    rows::PutLimitAsker(turn_.writer(), ns, key.key, key.numbers);
  } else if (askers_.erase(full) > 0) {
    rows::DropLimitAsker(turn_.writer(), ns, key.key);
  }
}

void LimitNumbersBook::Left(const std::string& ns, const std::string& key) {
  if (askers_.empty() || table_.Knows(ns, key)) return;
  if (askers_.erase(ResidentKey(ns, key)) > 0) rows::DropLimitAsker(turn_.writer(), ns, key);
}

void LimitNumbersBook::DropAskers() {
  if (!std::exchange(unswept_, false)) return;
  for (const std::string& full : std::set<std::string>(askers_)) {
    const auto [ns, key] = SplitKey(full);
    table_.Tidy(ns, key, turn_.clock());
    Left(ns, key);
  }
}

std::optional<std::string> LimitNumbersBook::NextKey(const std::string& ns,
                                                     const std::string& from) const {
  std::optional<std::string> next;
  const std::string prefix = ResidentKey(ns, "");
  const auto take = [&](const std::string& key) {
    if (key >= from && (!next || key < *next)) next = key;
  };
  const auto take_first = [&](const auto& map) {
    const auto it = map.lower_bound(prefix + from);
    if (it != map.end() && it->first.starts_with(prefix)) take(it->first.substr(prefix.size()));
  };
  take_first(overrides_);
  take_first(documents_by_root_);
  const auto own = document_keys_.lower_bound(prefix + from);
  if (own != document_keys_.end() && own->starts_with(prefix)) take(own->substr(prefix.size()));
  return next;
}

// Changes ---------------------------------------------------------------------------------------

Result<Ok> LimitNumbersBook::Override(const std::string& ns, const std::string& key,
                                      const LimitChange& change) {
  auto refuse = [](std::string why) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, std::move(why)};
  };
  if (auto problem = LimitKeyProblem(key)) return refuse(*problem);
  const bool changes = change.max || change.no_max || change.rate || change.no_rate;
  if (change.reset && (changes || change.note))
    return refuse("'reset' drops the override, and stands alone");
  if (change.max && change.no_max) return refuse("'max' and 'no_max' exclude each other");
  if (change.max && *change.max > kLimitMax) {
    return refuse("max " + std::to_string(*change.max) + " is more than " +
                  std::to_string(kLimitMax));
  }
  if (change.note && Characters(*change.note) > kNote) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "a note has at most " + std::to_string(kNote) + " characters"};
  }
  const std::string full = ResidentKey(ns, key);
  if (change.reset) {
    if (overrides_.erase(full) > 0) rows::DropLimitOverride(turn_.writer(), ns, key);
  } else {
    rows::LimitOverride& override = overrides_[full];
    if (change.max || change.no_max) {
      override.max = change.max;
      override.no_max = change.no_max;
    }
    if (change.rate || change.no_rate) {
      override.rate = change.rate;
      override.no_rate = change.no_rate;
    }
    override.note = change.note.value_or(override.note);
    override.set_by = change.client;
    override.set_time = turn_.now();
    rows::PutLimitOverride(turn_.writer(), ns, key, override);
  }
  Refresh(ns, key);
  Event event;
  event.kind = ChangeKind::kLimitSet;
  event.time = turn_.now();
  event.ns = ns;
  event.client = change.client;
  event.note = change.note.value_or("");
  event.about = Event::About{.cause = "limit:" + key};
  turn_.Append(&event);
  return Ok{};
}

void LimitNumbersBook::Import(const std::string& ns, const std::string& key,
                              const rows::LimitOverride& row) {
  if (!overrides_.emplace(ResidentKey(ns, key), row).second) return;
  rows::PutLimitOverride(turn_.writer(), ns, key, row);
  Refresh(ns, key);
}

void LimitNumbersBook::Govern(const std::string& ns, const std::string& name,
                              std::shared_ptr<const LimitSource> source) {
  const std::string root = source->root;
  roots_[ResidentKey(ns, name)] = root;
  documents_by_root_[ResidentKey(ns, root)] = {name, source};
  for (const auto& [key, numbers] : source->keys) document_keys_.insert(ResidentKey(ns, key));
  RefreshGoverned(ns, *source);
}

void LimitNumbersBook::RefreshGoverned(const std::string& ns, const LimitSource& source) {
  Refresh(ns, source.root);
  Rest rest{ns, source.root, source.root + "/"};
  if (RefreshSome(ns, rest.root, &rest.from)) to_refresh_.push_back(std::move(rest));
}

bool LimitNumbersBook::RefreshSome(const std::string& ns, const std::string& root,
                                   std::string* from) {
  std::vector<std::string> keys;
  bool more = false;
  table_.ForEachKey(ns, *from, [&](std::string_view key) {
    if (!key.starts_with(root + "/")) return false;
    *from = key;
    more = keys.size() == kRefreshedAtOnce;
    if (!more) keys.emplace_back(key);
    return !more;
  });
  for (const std::string& key : keys) Refresh(ns, key);
  return more;
}

bool LimitNumbersBook::RefreshMore() {
  if (to_refresh_.empty()) return false;
  Rest rest = std::move(to_refresh_.front());
  to_refresh_.pop_front();
  if (RefreshSome(rest.ns, rest.root, &rest.from)) to_refresh_.push_back(std::move(rest));
  return true;
}

void LimitNumbersBook::AddOwners(const std::string& ns, const std::vector<Document>& documents,
                                 Owners* owners) const {
  const auto again = [&documents](const std::string& name) {
    return std::ranges::any_of(documents, [&name](const Document& one) {
      return one.kind() == DocumentKind::kLimit && one.name == name;
    });
  };
  for (const auto& [full, governing] : documents_by_root_) {
    const auto [of, root] = SplitKey(full);
    if (of != ns || again(governing.name)) continue;
    (*owners)[{DocumentKind::kLimit, std::string(root)}] = governing.name;
  }
}

void LimitNumbersBook::Defined(const DocumentVersion& version, bool) {
  const std::string& name = version.document->name;
  const auto& source = std::get<std::shared_ptr<const LimitSource>>(version.document->body);
  const auto former = Ungovern(version.ns, name);
  Govern(version.ns, name, source);
  // Not before: keys that it goes on to govern change their numbers once, and keep their rates.
  if (former && former->root != source->root) RefreshGoverned(version.ns, *former);
}

void LimitNumbersBook::Deleted(const std::string& ns, const std::string& name) {
  if (const auto former = Ungovern(ns, name)) RefreshGoverned(ns, *former);
}

std::shared_ptr<const LimitSource> LimitNumbersBook::Ungovern(const std::string& ns,
                                                              const std::string& name) {
  auto root = roots_.find(ResidentKey(ns, name));
  if (root == roots_.end()) return nullptr;
  auto governing = documents_by_root_.find(ResidentKey(ns, root->second));
  roots_.erase(root);
  if (governing == documents_by_root_.end() || governing->second.name != name) return nullptr;
  std::shared_ptr<const LimitSource> source = std::move(governing->second.source);
  documents_by_root_.erase(governing);
  for (const auto& [key, numbers] : source->keys) document_keys_.erase(ResidentKey(ns, key));
  return source;
}

// Rates -----------------------------------------------------------------------------------------

void LimitNumbersBook::Spent(const std::string& ns, const std::string& key) {
  table_.Spend(ns, key, turn_.clock());
  if (table_.NumbersOf(ns, key).rate) SaveLater(ns, key);
}

void LimitNumbersBook::SaveLater(const std::string& ns, const std::string& key) {
  if (unsaved_.empty()) {
    due_ = After(turn_.real(), kSaveEvery);
    clock_due_ = After(turn_.clock(), kSaveEvery);
  }
  unsaved_.insert(ResidentKey(ns, key));
}

bool LimitNumbersBook::IsDue() const {
  return !unsaved_.empty() && (due_ <= turn_.real() || clock_due_ <= turn_.clock());
}

void LimitNumbersBook::Save() {
  while (!kept_until_.empty() && kept_until_.begin()->first <= turn_.clock()) {
    const std::string full = kept_until_.begin()->second;
    Unkeep(full);
    const auto [ns, key] = SplitKey(full);
    rows::DropLimitRate(turn_.writer(), ns, key);
  }
  for (const std::string& full : unsaved_) {
    const auto [ns, key] = SplitKey(full);
    if (const auto at = table_.FullAt(ns, key, turn_.clock())) {
      rows::PutLimitRate(turn_.writer(), ns, key, *at);
      Keep(full, *at);
    } else if (kept_.contains(full)) {
      rows::DropLimitRate(turn_.writer(), ns, key);
      Unkeep(full);
    }
  }
  unsaved_.clear();
}

void LimitNumbersBook::Forget(const std::string& ns) {
  const std::string prefix = ns + '\0';
  const auto of_it = [&prefix](const std::string& full) { return full.starts_with(prefix); };
  std::vector<std::string> keys;
  for (auto it = overrides_.lower_bound(prefix); it != overrides_.end() && of_it(it->first);) {
    keys.push_back(SplitKey(it->first).second);
    it = overrides_.erase(it);
  }
  for (const std::string& key : keys) Refresh(ns, key);
  std::erase_if(askers_, of_it);
  for (auto it = tracked_.lower_bound(prefix); it != tracked_.end() && of_it(*it);) {
    const std::string full = *it++;
    SetTracked(full, HasNumber(full), /*asked_for=*/false);
  }
  std::set<std::string> spent;
  for (auto it = unsaved_.lower_bound(prefix); it != unsaved_.end() && of_it(*it);) {
    spent.insert(*it);
    it = unsaved_.erase(it);
  }
  for (auto it = kept_.lower_bound(prefix); it != kept_.end() && of_it(it->first); ++it) {
    spent.insert(it->first);
  }
  constexpr Duration kFullBy = std::chrono::hours(24 * 366);
  for (const std::string& full : spent) {
    Unkeep(full);
    table_.Tidy(ns, SplitKey(full).second, After(turn_.clock(), kFullBy));
  }
}

void LimitNumbersBook::Keep(const std::string& full, Timestamp at) {
  Unkeep(full);
  kept_.emplace(full, at);
  kept_until_.emplace(at, full);
}

void LimitNumbersBook::Unkeep(const std::string& full) {
  const auto kept = kept_.find(full);
  if (kept == kept_.end()) return;
  kept_until_.erase({kept->second, full});
  kept_.erase(kept);
}

}  // namespace dfsmr
