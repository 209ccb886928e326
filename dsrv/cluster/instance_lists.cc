#include "dsrv/cluster/instance_lists.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <type_traits>
#include <utility>

#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/fields.h"
#include "dsrv/cluster/merge.h"
#include "dsrv/wire/agents.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/hex.h"

namespace dfsmr {
namespace {

auto* ItemsIn(v1::ListInstancesResponse* page) { return page->mutable_instances(); }
auto* ItemsIn(v1::ListOperationsResponse* page) { return page->mutable_operations(); }

// What such a list is made of. Asks on until the page is full or nothing is left; a search no
// longer than on one server.
template <typename Request, typename Page>
class MergedList : public Gathering {
 public:
  MergedList(Request request, size_t limit, bool searches, const Parting& parting)
      : request_(std::move(request)),
        limit_(limit),
        searches_(searches),
        lists_(parting.partitions),
        items_(parting.partitions) {}

 protected:
  // Whether the partition's list ends before the page that is being made.
  virtual bool Ends(size_t part) const = 0;
  // The token with which a partition's list goes on behind what is known of it.
  virtual std::string TokenOf(size_t part) const = 0;
  // By which the items of a page of one partition are ordered; notes where its list goes on.
  // nullopt: that cannot be read.
  virtual std::optional<std::vector<std::string>> PlacesOf(size_t part, const Page& page) = 0;
  // What the reply has besides the items.
  virtual void Complete(const MergedPage& merged, Page* reply) = 0;

  const Request& request() const { return request_; }
  std::vector<ListPart>& lists() { return lists_; }
  const std::vector<ListPart>& lists() const { return lists_; }

 private:
  using Item = typename std::remove_pointer_t<
      decltype(ItemsIn(std::declval<Page*>()))>::value_type;

  std::vector<Question> Begin() override {
    std::vector<size_t> parts;
    for (size_t part = 0; part < lists_.size(); ++part) {
      if (!Ends(part)) parts.push_back(part);
    }
    return AskFor(parts);
  }

  std::vector<Question> AskFor(const std::vector<size_t>& parts) const {
    std::vector<Question> questions;
    Request request = request_;
    request.set_page_size(ShareOf(limit_ - merged_.items.size(), parts.size()));
    for (const size_t part : parts) {
      request.set_page_token(TokenOf(part));
      questions.push_back({static_cast<PartitionId>(part), request.SerializeAsString()});
    }
    return questions;
  }

  std::vector<Question> Go(const std::vector<Question>& asked,
                           std::vector<PartAnswer> answers) override {
    for (size_t i = 0; i < answers.size(); ++i) {
      Page page;
      if (!Read(answers[i].reply, &page)) return {};
      answers[i].reply.clear();
      TakePage(asked[i].partition, &page);
    }
    merged_ = Merge(lists_, limit_, kReplyBytes);
    const bool late = searches_ && std::chrono::steady_clock::now() - began_ >= kSearchPatience;
    return late || merged_.lacks.empty() ? std::vector<Question>() : AskFor(merged_.lacks);
  }

  void TakePage(size_t part, Page* page) {
    auto places = PlacesOf(part, *page);
    auto* const items = ItemsIn(page);
    if (!places || places->size() != static_cast<size_t>(items->size())) {
      return Refuse({Code::kInternal, Reason::kNone,
                     "the owner of partition " + std::to_string(part) +
                         " has not told where the items of its list stand"});
    }
    auto place = places->begin();
    for (Item& item : *items) {
      lists_[part].items.push_back({std::move(*place++), item.ByteSizeLong()});
      items_[part].emplace_back().Swap(&item);
    }
  }

  std::string JoinedReply() override {
    Page reply;
    for (const auto& [part, item] : merged_.items) {
      ItemsIn(&reply)->Add()->Swap(&items_[part][item]);
    }
    Complete(merged_, &reply);
    return reply.SerializeAsString();
  }

  const Request request_;
  const size_t limit_;
  const bool searches_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<ListPart> lists_;  // by partition, with the items
  std::vector<std::vector<Item>> items_;
  MergedPage merged_;
};

// By id. ------------------------------------------------------------------------------------------

class ListById final : public MergedList<v1::ListInstancesRequest, v1::ListInstancesResponse> {
 public:
  ListById(v1::ListInstancesRequest request, std::string after, size_t limit, bool searches,
           const Parting& parting)
      : MergedList(std::move(request), limit, searches, parting),
        filters_(FiltersOf(this->request())),
        after_(std::move(after)) {}

 private:
  bool Ends(size_t) const override { return false; }
  std::string TokenOf(size_t part) const override {
    const std::string& last = lists()[part].last.empty() ? after_ : lists()[part].last;
    return last.empty() ? "" : PageToken(filters_, last);
  }
  std::optional<std::vector<std::string>> PlacesOf(
      size_t part, const v1::ListInstancesResponse& page) override {
    auto last = ParsePageToken(filters_, page.next_page_token());
    if (!last) return std::nullopt;
    lists()[part].last = *std::move(last);
    looked_at_ += page.looked_at();
    std::vector<std::string> ids;
    for (const v1::Instance& instance : page.instances()) ids.push_back(instance.id());
    return ids;
  }
  void Complete(const MergedPage& merged, v1::ListInstancesResponse* reply) override {
    reply->set_looked_at(looked_at_);
    if (!merged.last.empty()) reply->set_next_page_token(PageToken(filters_, merged.last));
  }

  const std::string filters_;
  const std::string after_;
  uint64_t looked_at_ = 0;
};

// In order of time. -------------------------------------------------------------------------------

// Where the list goes on in each partition; nullopt: there it ends.
using PartPlaces = std::vector<std::optional<std::string>>;

// The number alone of a place that has one, so that tokens are short.
std::string TextOfPlaces(const PartPlaces& places) {
  std::string text;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string place = places[i].value_or("-");
    text += (i > 0 ? "," : "") + place.substr(place.find('.') + 1);
  }
  return text;
}

// Empty: it is no such text. Of the first page all are empty.
PartPlaces PlacesInToken(const std::string& text, uint16_t partitions) {
  if (text.empty()) return PartPlaces(partitions, "");
  PartPlaces places;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.size(), text.find(',', begin));
    const std::string place = text.substr(begin, end - begin);
    places.push_back(place == "-" ? std::nullopt : std::optional(place));
    begin = end + 1;
  }
  return places.size() == partitions ? places : PartPlaces();
}

constexpr size_t kTimeDigits = 16;  // with which a place begins

uint64_t TimeIn(std::string_view place) {
  uint64_t time = 0;
  std::from_chars(place.data(), place.data() + std::min(place.size(), kTimeDigits), time, 16);
  return time;
}

template <typename Request, typename Page>
class ListInTime final : public MergedList<Request, Page> {
 public:
  ListInTime(Request request, PartPlaces places, size_t limit, bool backwards, bool searches,
             const Parting& parting)
      : MergedList<Request, Page>(std::move(request), limit, searches, parting),
        filters_(FiltersOf(this->request())),
        backwards_(backwards),
        parts_(parting.partitions) {
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].begin = std::move(places[i]);
  }

 private:
  struct Part {
    std::optional<std::string> begin;
    std::vector<std::string> places;  // of the items that are known
    std::string last = {};            // as in its last page
    uint64_t latest = 0;              // time that is known, in the order of the list
    uint64_t keys = 0;
  };

  bool Ends(size_t part) const override { return !parts_[part].begin; }
  std::string TokenOf(size_t part) const override {
    const Part& known = parts_[part];
    return PageToken(filters_,
                     kTellsPlaces + (known.last.empty() ? known.begin.value_or("") : known.last));
  }

  // Items of all partitions are in order of their keys: that of time, except where the clock of a
  // partition was set back.
  std::string KeyOf(size_t part, const std::string& place) {
    Part& known = parts_[part];
    const uint64_t time = backwards_ ? ~TimeIn(place) : TimeIn(place);
    known.latest = std::max(known.latest, time);
    return ToHex(known.latest) + ToHex(uint64_t{part}) + ToHex(++known.keys);
  }

  std::optional<std::vector<std::string>> PlacesOf(size_t part, const Page& page) override {
    const auto text = ParsePageToken(filters_, page.next_page_token());
    auto places = text ? PlacesIn(*text) : std::nullopt;
    if (!places) return std::nullopt;
    NoteSearch(page);
    std::vector<std::string> keys;
    for (const std::string& place : places->items) keys.push_back(KeyOf(part, place));
    Part& known = parts_[part];
    known.last = std::move(places->last);
    this->lists()[part].last = known.last.empty() ? "" : KeyOf(part, known.last);
    std::ranges::move(places->items, std::back_inserter(known.places));
    return keys;
  }

  // How far it has come, and over how many rows.
  void NoteSearch(const Page& page) {
    if constexpr (requires { page.looked_at(); }) {
      AddNumbers(page, {"looked_at"}, &searched_);
      backwards_ ? TakeLess(page, {"back_to"}, &searched_)
                 : TakeGreater(page, {"back_to"}, &searched_);
    }
  }

  void Complete(const MergedPage& merged, Page* reply) override {
    if constexpr (requires { reply->looked_at(); }) {
      reply->set_looked_at(searched_.looked_at());
      if (searched_.has_back_to()) *reply->mutable_back_to() = searched_.back_to();
      if (!merged.last.empty()) {
        const uint64_t time = backwards_ ? ~TimeIn(merged.last) : TimeIn(merged.last);
        ToProto(FromMicros(static_cast<int64_t>(time)), reply->mutable_back_to());
      }
    }
    if (merged.last.empty()) return;
    reply->set_next_page_token(PageToken(filters_, TextOfPlaces(Next(merged))));
  }

  // Where the next page begins.
  PartPlaces Next(const MergedPage& merged) const {
    std::vector<size_t> taken(parts_.size());
    for (const auto& [part, item] : merged.items) ++taken[part];
    PartPlaces next;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const bool all = taken[i] == part.places.size();
      if (!part.begin || (all && part.last.empty())) {
        next.emplace_back();
      } else if (all) {
        next.emplace_back(part.last);
      } else {
        next.emplace_back(taken[i] > 0 ? part.places[taken[i] - 1] : *part.begin);
      }
    }
    return next;
  }

  const std::string filters_;
  const bool backwards_;
  std::vector<Part> parts_;
  Page searched_;
};

template <typename Request, typename Page>
std::unique_ptr<PartedCall> MakeInTime(Request request, const std::string& token, size_t limit,
                                       bool backwards, bool searches, const Parting& parting) {
  PartPlaces places = PlacesInToken(token, parting.partitions);
  const bool any = std::ranges::any_of(places, [](const auto& place) { return place.has_value(); });
  if (!any) return Refusing(MalformedToken());
  return std::make_unique<ListInTime<Request, Page>>(std::move(request), std::move(places), limit,
                                                     backwards, searches, parting);
}

}  // namespace

int32_t ShareOf(size_t need, size_t partitions) {
  const double mean = static_cast<double>(need) / static_cast<double>(partitions);
  const auto share = static_cast<size_t>(std::ceil(mean + 2 * std::sqrt(mean) + 1));
  return static_cast<int32_t>(std::min(need, share));
}

std::unique_ptr<PartedCall> MakeInstanceList(const std::string& bytes, const Parting& parting) {
  v1::ListInstancesRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  const auto limit = ToPageSize(request.page_size());
  auto token = ParsePageToken(FiltersOf(request), request.page_token());
  // Its services say what is wrong with it.
  if (!limit || !token) return AskOne(parting.any, bytes);
  if (request.order_by().empty() || request.order_by() == "id") {
    const bool searches = !request.filter().empty();
    return std::make_unique<ListById>(std::move(request), *std::move(token), *limit, searches,
                                      parting);
  }
  const bool backwards = request.order_by().starts_with('-');
  return MakeInTime<v1::ListInstancesRequest, v1::ListInstancesResponse>(
      std::move(request), *token, *limit, backwards, /*searches=*/true, parting);
}

std::unique_ptr<PartedCall> MakeOperationList(const std::string& bytes, const Parting& parting) {
  v1::ListOperationsRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  const auto limit = ToPageSize(request.page_size());
  auto token = ParsePageToken(FiltersOf(request), request.page_token());
  if (!limit || !token) return AskOne(parting.any, bytes);
  return MakeInTime<v1::ListOperationsRequest, v1::ListOperationsResponse>(
      std::move(request), *token, *limit, /*backwards=*/false, /*searches=*/false, parting);
}

}  // namespace dfsmr
