#include "dsrv/cluster/counts.h"

#include <charconv>
#include <utility>

#include "dsrv/cluster/fields.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/views.h"

namespace dfsmr {
namespace {

constexpr size_t kGroupsShown = 1'000;

class CountOfAll final : public Gathering {
 public:
  CountOfAll(v1::CountInstancesRequest request, CountSoFar so_far, const Parting& parting)
      : request_(std::move(request)),
        filters_(FiltersOf(request_)),
        so_far_(std::move(so_far)),
        parting_(parting) {}

 private:
  std::vector<Question> Begin() override {
    if (request_.page_token().empty()) {
      return AskAll(request_.SerializeAsString(), parting_, Needs::kEach);
    }
    std::vector<Question> questions;
    v1::CountInstancesRequest request = request_;
    for (const auto& [partition, last] : so_far_.left) {
      request.set_page_token(PageToken(filters_, last + '\0'));  // nothing is counted so far
      questions.push_back({partition, request.SerializeAsString()});
    }
    so_far_.left.clear();
    return questions;
  }
  std::vector<Question> Go(const std::vector<Question>& asked,
                           std::vector<PartAnswer> answers) override {
    for (size_t i = 0; i < answers.size(); ++i) {
      v1::CountInstancesResponse part;
      if (!Read(answers[i].reply, &part)) break;
      Add(part, &so_far_.sum);
      const auto last = ParsePageToken(filters_, part.next_page_token());
      if (last && !last->empty()) {
        so_far_.left[asked[i].partition] = last->substr(0, last->find('\0'));
      }
    }
    return {};
  }
  std::string JoinedReply() override {
    if (!so_far_.left.empty()) {
      so_far_.sum.set_next_page_token(PageToken(filters_, TextOf(so_far_)));
    }
    return so_far_.sum.SerializeAsString();
  }

  const v1::CountInstancesRequest request_;
  const std::string filters_;
  CountSoFar so_far_;
  const Parting parting_;
};

// The number that the text begins with, and the colon behind it, which are taken off.
std::optional<size_t> TakeNumber(std::string_view* text) {
  size_t number = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), number);
  const auto digits = static_cast<size_t>(read.ptr - text->data());
  if (read.ec != std::errc() || digits == text->size() || *read.ptr != ':') return std::nullopt;
  text->remove_prefix(digits + 1);
  return number;
}

bool HasMore(const CountSoFar& count, const Parting& parting) {
  return !count.left.empty() && count.left.rbegin()->first < parting.partitions;
}

}  // namespace

void Add(const v1::CountInstancesResponse& part, v1::CountInstancesResponse* sum) {
  AddNumbers(part, {"total", "looked_at"}, sum);
  auto& groups = *sum->mutable_groups();
  for (const auto& [group, count] : part.groups()) {
    const bool full = groups.size() >= kGroupsShown && !groups.contains(group);
    groups[full ? "" : group] += count;
  }
}

// PARTITION:SIZE:ID for each that has more, then a colon and what is counted.
std::string TextOf(const CountSoFar& count) {
  std::string text;
  for (const auto& [partition, last] : count.left) {
    text += std::to_string(partition) + ':' + std::to_string(last.size()) + ':' + last;
  }
  return text + ':' + count.sum.SerializeAsString();
}

std::optional<CountSoFar> CountIn(const std::string& text) {
  CountSoFar count;
  std::string_view rest = text;
  while (!rest.starts_with(':')) {
    const auto partition = TakeNumber(&rest);
    const auto size = partition ? TakeNumber(&rest) : std::nullopt;
    if (!size || *size > rest.size() || *partition > UINT16_MAX) return std::nullopt;
    count.left[static_cast<PartitionId>(*partition)] = rest.substr(0, *size);
    rest.remove_prefix(*size);
  }
  rest.remove_prefix(1);
  const bool read = count.sum.ParseFromArray(rest.data(), static_cast<int>(rest.size()));
  return read ? std::optional(std::move(count)) : std::nullopt;
}

std::unique_ptr<PartedCall> MakeCount(const std::string& bytes, const Parting& parting) {
  v1::CountInstancesRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  const auto text = ParsePageToken(FiltersOf(request), request.page_token());
  if (!text) return AskOne(parting.any, bytes);  // its services say what is wrong with it
  auto so_far = text->empty() ? CountSoFar() : CountIn(*text);
  if (!so_far || (!text->empty() && !HasMore(*so_far, parting))) {
    return Refusing(MalformedToken());
  }
  return std::make_unique<CountOfAll>(std::move(request), *std::move(so_far), parting);
}

}  // namespace dfsmr
