#include "dsrv/wire/search.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kSampled = 500;

class Search {
 public:
  Search(const Moment& moment, const InstanceQuery& query, size_t limit)
      : moment_(moment), query_(query), limit_(limit), matcher_(moment, query) {}

  Result<SearchPage> Run() {
    const std::vector<Source> sources = Sources();
    for (const Source& source : sources) {
      if (query_.patience) share_ = *query_.patience / static_cast<int>(sources.size());
      patience_ = Patience(share_);
      begin_ = page_.hits.size();
      ended_ = false;
      reached_.clear();
      auto outcome = source();
      if (failed_) return *failed_;
      if (!outcome) return outcome.error();
      // What a later source finds behind the place where another has ended comes with a later page.
      if (ended_) end_ = end_ ? std::min(*end_, reached_) : reached_;
    }
    Cut();
    return std::move(page_);
  }

 private:
  using Source = std::function<Result<Ok>()>;

  std::vector<Source> Sources() {
    std::vector<Source> sources;
    const auto by_index = [&](auto scan, const std::string& of) {
      sources.push_back([this, scan, of] {
        return scan(moment_.rows, rows::InstanceName(query_.ns, query_.after), of, VisitId());
      });
    };
    if (AddNamed(&sources)) return sources;
    if (query_.machines) {
      for (const std::string& machine : *query_.machines) by_index(rows::ScanMachine, machine);
      return sources;
    }
    if (const std::string* parent = query_.filter.Exact(FilterKey::kParent); parent) {
      // Its children, and those of the steps that the text may be the path of.
      by_index(rows::ScanChildren, *parent);
      for (size_t slash = parent->rfind('/'); slash != std::string::npos && slash > 0;
           slash = parent->rfind('/', slash - 1)) {
        by_index(rows::ScanChildren, parent->substr(0, slash));
      }
    } else if (!query_.parent.empty()) {
      by_index(rows::ScanChildren, query_.parent);
    } else if (query_.filter.Exact(FilterKey::kAfter)) {
      sources.push_back([this] { return VisitAll(query_.followers); });
    } else if (!query_.group.empty()) {
      by_index(rows::ScanMembers, query_.group);
    } else if (!query_.cause.empty()) {
      by_index(rows::ScanCause, query_.cause);
    } else if (!AddLabels(&sources)) {
      AddTables(&sources);
    }
    return sources;
  }

  // Ids that the filter gives.
  bool AddNamed(std::vector<Source>* sources) {
    for (const FilterTerm& term : query_.filter.terms()) {
      if (term.key != FilterKey::kId || term.negated) continue;
      if (!std::ranges::all_of(term.texts, &TextPattern::Exact)) continue;
      std::vector<std::string> ids;
      for (const TextPattern& one : term.texts) ids.push_back(one.text);
      std::ranges::sort(ids);
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      sources->push_back([this, ids = std::move(ids)] { return VisitAll(ids); });
      return true;
    }
    return false;
  }

  bool AddLabels(std::vector<Source>* sources) {
    const auto add = [&](const std::string& key, const std::string& value) {
      sources->push_back([this, key, value] {
        return rows::ScanLabel(moment_.rows, {query_.ns, query_.after}, key, value, VisitId());
      });
    };
    if (!query_.labels.empty()) {
      add(query_.labels.begin()->first, query_.labels.begin()->second);
      return true;
    }
    for (const FilterTerm& term : query_.filter.terms()) {
      if (term.key != FilterKey::kLabel || term.negated) continue;
      if (!std::ranges::all_of(term.texts, &TextPattern::Exact)) continue;
      for (const TextPattern& one : term.texts) add(term.label, one.text);
      return true;
    }
    return false;
  }

  void AddTables(std::vector<Source>* sources) {
    const bool live =
        query_.state != InstanceState::kStopped &&
        (query_.result == InstanceResult::kNone || query_.result == InstanceResult::kPending) &&
        !Says(FilterKey::kState, "STOPPED");
    const bool stopped =
        (query_.state == InstanceState::kNone || query_.state == InstanceState::kStopped) &&
        query_.result != InstanceResult::kPending && MayHaveStopped();
    for (bool table : {false, true}) {
      if (table ? stopped : live) sources->push_back([this, table] { return ScanTable(table); });
    }
  }

  // Whether the filter asks for this text, and for no other, under the key.
  bool Says(FilterKey key, std::string_view text) const {
    const std::string* exact = query_.filter.Exact(key);
    return exact && *exact == text;
  }

  // Whether the filter lets stopped ones through, as far as its terms about the state say.
  bool MayHaveStopped() const {
    return std::ranges::none_of(query_.filter.terms(), [](const FilterTerm& term) {
      const auto is_stopped = [](const TextPattern& one) { return one.text == "STOPPED"; };
      return term.key == FilterKey::kState &&
             std::ranges::any_of(term.texts, is_stopped) == term.negated;
    });
  }

  // Reading rows in order is a hundred times cheaper than finding them one by one through an index.
  // So the index of the machine pays only where few of the rows belong to that machine.
  Result<Ok> ScanTable(bool stopped) {
    const std::string* exact = query_.filter.Exact(FilterKey::kMachine);
    const std::string& machine = query_.machine.empty() && exact ? *exact : query_.machine;
    const bool sparse = !machine.empty() && Sparse(stopped, machine);
    patience_ = Patience(share_);  // the sample is no part of the search
    if (sparse) {
      return rows::ScanMachine(moment_.rows, {query_.ns, query_.after}, machine, VisitId(stopped));
    }
    const std::string from = FirstId();
    rows::Wanted wanted{machine, query_.node, query_.state, query_.result};
    wanted.from = from;
    const bool each = query_.patience.has_value();  // row counts, also those of no account
    if (each) {
      wanted.look = [&](std::string_view id) {
        return id.starts_with(from) && Look(id);  // all that begin so stand together
      };
    }
    return rows::ScanInstances(
        moment_.rows, stopped, {query_.ns, query_.after}, moment_.resolve,
        [&](Instance instance) {
          return (each || Look(instance.id)) && Consider(std::move(instance));
        },
        wanted);
  }

  // What all ids begin with that the filter lets through; empty: it does not say.
  std::string FirstId() const {
    for (const FilterTerm& term : query_.filter.terms()) {
      const bool of_id = term.key == FilterKey::kId || term.key == FilterKey::kWord;
      if (of_id && !term.negated && term.texts.size() == 1 && !term.texts.front().open_front) {
        return term.texts.front().text;
      }
    }
    return "";
  }

  // Whether only few of the next rows belong to the machine.
  bool Sparse(bool stopped, const std::string& machine) {
    size_t scanned = 0;
    size_t of_machine = 0;
    (void)rows::ScanInstances(moment_.rows, stopped, {query_.ns, query_.after}, moment_.resolve,
                              [&](const Instance& instance) {
                                of_machine += instance.machine == machine;
                                return ++scanned < kSampled;
                              });
    return scanned == kSampled && of_machine < kSampled / 50;
  }

  rows::VisitId VisitId(std::optional<bool> stopped = std::nullopt) {
    return [this, stopped](std::string_view id) {
      if (!Look(id)) return false;
      auto instance = rows::GetInstance(moment_.rows, {query_.ns, id}, moment_.resolve);
      if (!instance) {
        if (instance.error().code != Code::kNotFound) failed_ = instance.error();
        return !failed_;
      }
      return (stopped && instance->Stopped() != *stopped) || Consider(*std::move(instance));
    };
  }

  // Ids in ascending order.
  Result<Ok> VisitAll(const std::vector<std::string>& ids) {
    const auto visit = VisitId();
    for (auto id = std::ranges::upper_bound(ids, query_.after); id != ids.end(); ++id) {
      if (!visit(*id)) break;
    }
    return Ok{};
  }

  // Another row. False: the search has ended before it. One hit more than a page holds shows
  // whether there is a next page.
  bool Look(std::string_view id) {
    if (end_ && id > *end_) return false;  // the page will not come so far
    const bool full = page_.hits.size() - begin_ > limit_;
    if (full || (!reached_.empty() && patience_.IsOver())) {
      ended_ = true;
      return false;
    }
    reached_ = id;
    ++page_.looked_at;
    return true;
  }

  bool Consider(Instance instance) {
    auto view = matcher_.Match(std::move(instance));
    if (!view) failed_ = view.error();
    if (failed_) return false;
    if (*view) {
      std::string id = (*view)->instance.id;
      page_.hits.push_back({**std::move(view), std::move(id)});
    }
    return true;
  }

  void Cut() {
    std::vector<SearchHit>& hits = page_.hits;
    std::ranges::sort(hits, {}, &SearchHit::place);
    const auto same = [](const SearchHit& a, const SearchHit& b) { return a.place == b.place; };
    hits.erase(std::unique(hits.begin(), hits.end(), same), hits.end());
    if (end_) {
      const auto behind = std::ranges::upper_bound(hits, *end_, {}, &SearchHit::place);
      hits.erase(behind, hits.end());
      page_.last = *end_;
    }
    if (/*mutant last-page-lost*/ hits.size() <= limit_ /*end*/) return;
    page_.last = hits[/*mutant list-page-skips-one*/ limit_ - 1 /*end*/].place;
    hits.resize(limit_);
  }

  const Moment& moment_;
  const InstanceQuery& query_;
  const size_t limit_;
  Matcher matcher_;
  std::optional<Duration> share_;  // of the patience that one source has; absent: no end
  Patience patience_{std::nullopt};
  SearchPage page_;
  std::optional<std::string>
      end_;              // up to where all sources have been searched; absent: to the end
  size_t begin_ = 0;     // of the hits of this source
  std::string reached_;  // the last id that this source looked at
  bool ended_ = false;   // the source may have more
  std::optional<Error> failed_;
};

}  // namespace

Result<SearchPage> SearchById(const Moment& moment, const InstanceQuery& query, size_t limit) {
  return Search(moment, query, limit).Run();
}

}  // namespace dfsmr
