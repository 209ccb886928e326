#include "storage/rows/feed.h"

#include <google/protobuf/io/coded_stream.h>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"
#include "storage/rows/past.h"

namespace dfsmr::rows {
namespace {

void Append(const Event& event, std::string* bytes) {
  thread_local record::Event out;  // reused, so that its texts keep their memory
  out.Clear();
  out.set_time(Micros(event.time));
  out.set_kind(static_cast<uint32_t>(event.kind));
  out.set_ns(event.ns);
  out.set_machine(event.machine);
  out.set_version(event.version);
  out.set_instance(event.instance);
  out.set_prev_node(event.prev_node);
  out.set_node(event.node);
  out.set_transition(event.transition);
  out.set_visit(event.visit);
  out.set_attempt(event.attempt);
  out.set_client(event.client);
  out.set_params(event.params);
  out.set_note(event.note);
  out.set_left_visit(event.left_visit);
  if (event.begin_time != Timestamp()) out.set_begin_time(Micros(event.begin_time));
  out.set_error_kind(event.error_kind);
  if (event.about) {
    record::About* about = out.mutable_about();
    about->set_cause(event.about->cause);
    about->set_group(event.about->group);
    about->set_outcome(event.about->outcome);
    about->set_occurrence(event.about->occurrence);
    about->set_depth(event.about->depth);
    about->set_dry_run(event.about->dry_run);
  }
  if (event.package) {
    record::PackageName* package = out.mutable_package();
    package->set_name(event.package->name);
    package->set_version(event.package->version);
    package->set_digest(event.package->digest);
  }
  if (event.answer) Encode(*event.answer, out.mutable_answer());
  for (const Event::Sample& sample : event.samples) {
    record::Sample* to = out.add_samples();
    to->set_node(sample.node);
    to->set_took(sample.took.count());
    to->set_censored(sample.censored);
    /*mutant replaced-not-recorded*/ to->set_replaces(sample.replaces.count()); /*end*/
    to->set_retry(sample.retry);
  }
  using google::protobuf::io::CodedOutputStream;
  const size_t size = out.ByteSizeLong();
  const size_t begin = bytes->size();
  bytes->resize(begin + CodedOutputStream::VarintSize64(size) + size);
  auto* const at = reinterpret_cast<uint8_t*>(bytes->data() + begin);
  out.SerializeWithCachedSizesToArray(CodedOutputStream::WriteVarint64ToArray(size, at));
}

Result<Event> DecodeEvent(uint64_t seq, std::string_view value) {
  record::Event in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      !(in.kind() == 0 || IsChangeKind(in.kind()))) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "the store holds a damaged record of the feed, number " + std::to_string(seq)};
  }
  Event event;
  event.seq = seq;
  event.time = FromMicros(in.time());
  event.kind = static_cast<ChangeKind>(in.kind());
  event.ns = in.ns();
  event.machine = in.machine();
  event.version = in.version();
  event.instance = in.instance();
  event.prev_node = in.prev_node();
  event.node = in.node();
  event.transition = in.transition();
  event.visit = in.visit();
  event.attempt = in.attempt();
  event.client = in.client();
  event.params = in.params();
  event.note = in.note();
  event.left_visit = in.left_visit();
  event.begin_time = FromMicros(in.begin_time());
  event.error_kind = in.error_kind();
  if (in.has_about()) {
    event.about = Event::About{in.about().cause(),      in.about().group(), in.about().outcome(),
                               in.about().occurrence(), in.about().depth(), in.about().dry_run()};
  }
  if (in.has_package()) {
    event.package =
        Event::Package{in.package().name(), in.package().version(), in.package().digest()};
  }
  if (in.has_answer()) event.answer = Decode(in.answer());
  for (const auto& sample : in.samples()) {
    event.samples.push_back({sample.node(), Duration(sample.took()), sample.censored(),
                             Duration(sample.replaces()), sample.retry()});
  }
  return event;
}

constexpr char kPage = '\0';
PageSizes page_sizes;

// The records of a page, still encoded, until `visit` returns false. Returns the number after the
// last one that was visited.
using VisitRecord = std::function<bool(uint64_t seq, std::string_view record)>;
Result<uint64_t> WalkPage(uint64_t first, std::string_view bytes, const VisitRecord& visit) {
  if (bytes.empty() || bytes.front() != kPage) {
    visit(first, bytes);
    return first + 1;
  }
  bytes.remove_prefix(1);
  uint64_t seq = first;
  while (!bytes.empty()) {
    const auto length = TakeVarint(&bytes, 35);
    if (!length || *length > bytes.size()) {
      return Error{Code::kDataLoss, Reason::kStoreFailed,
                   "the store holds a damaged page of the feed, at record " + std::to_string(seq)};
    }
    if (!visit(seq++, bytes.substr(0, *length))) break;
    bytes.remove_prefix(*length);
  }
  return seq;
}

// Decodes the records of a page from `first` on. False: `visit` has returned false.
Result<bool> VisitPage(uint64_t start, std::string_view bytes, uint64_t first,
                       const std::function<bool(Event)>& visit) {
  Result<bool> more = true;
  auto walked = WalkPage(start, bytes, [&](uint64_t seq, std::string_view record) {
    if (seq < first || record.empty()) return true;
    auto event = DecodeEvent(seq, record);
    more = event ? Result<bool>(visit(*std::move(event))) : Result<bool>(event.error());
    return more.has_value() && *more;
  });
  if (!walked) return walked.error();
  return more;
}

uint64_t SeqOf(std::string_view key) { return KeyReader(key).Number(); }

}  // namespace

void SetPageSizes(const PageSizes& sizes) { page_sizes = sizes; }

void AddEvent(std::vector<FeedPage>* pages, const Event& event) {
  if (pages->empty() || pages->back().bytes.size() >= page_sizes.bytes ||
      /*mutant planted-22*/ event.seq - pages->back().first >= page_sizes.records /*end*/) {
    pages->push_back({event.seq, 0, std::string(1, kPage)});
  }
  Append(event, &pages->back().bytes);
  pages->back().last = event.seq;
}

void PutPages(const Writer& writer, const std::vector<FeedPage>& pages) {
  for (const FeedPage& page : pages)
    writer.batch.Put(FeedKey(writer.partition, page.first), page.bytes);
}

Result<Ok> ReadPage(const FeedPage& page, uint64_t first, const std::function<bool(Event)>& visit) {
  auto read = VisitPage(page.first, page.bytes, first, visit);
  if (!read) return read.error();
  return Ok{};
}

Result<Ok> VisitEncoded(const FeedPage& page, const VisitRecord& visit) {
  auto walked = WalkPage(page.first, page.bytes, visit);
  return walked ? Result<Ok>(Ok{}) : walked.error();
}

// Of the pages that begin between `from` and `to`, the one that begins last; nullopt when there is
// none.
static Result<std::optional<FeedPage>> LastPage(const Reader& reader, uint64_t from, uint64_t to) {
  std::optional<FeedPage> page;
  auto scanned = reader.view.Scan(
      FeedKey(reader.partition, from), FeedKey(reader.partition, to) + '\0',
      [&page](std::string_view key, std::string_view value) {
        page = {SeqOf(key), 0, std::string(value)};
        return false;
      },
      /*reverse=*/true);
  if (!scanned) return scanned.error();
  if (!page) return page;
  auto end = WalkPage(page->first, page->bytes, [](uint64_t, std::string_view) { return true; });
  if (!end) return end.error();
  page->last = *end - 1;
  return page;
}

// The page that may hold the record. Does not scan the tombstones of pages trimmed before it.
static Result<std::optional<FeedPage>> PageOf(const Reader& reader, uint64_t seq) {
  return LastPage(reader, seq < page_sizes.records ? 0 : seq - page_sizes.records + 1, seq);
}

Result<uint64_t> PageStart(const Reader& reader, uint64_t seq) {
  auto page = PageOf(reader, seq);
  if (!page) return page.error();
  return *page && (*page)->last >= seq ? (*page)->first : seq;
}

Result<Ok> ScanFeed(const Reader& reader, uint64_t first, const std::function<bool(Event)>& visit) {
  auto start = PageStart(reader, first);
  if (!start) return start.error();
  return ScanAll(reader, FeedKey(reader.partition, *start),
                 PrefixEnd(Key(reader.partition, kFeed).bytes()),
                 [&](std::string_view key, std::string_view value) {
                   return VisitPage(SeqOf(key), value, first, visit);
                 });
}

Result<Ok> ScanFeedBackwards(const Reader& reader, uint64_t from, uint64_t before,
                             const std::function<bool(Event)>& visit) {
  if (from >= before) return Ok{};
  auto start = PageStart(reader, from);
  if (!start) return start.error();
  Result<Ok> outcome = Ok{};
  auto scanned = reader.view.Scan(
      FeedKey(reader.partition, *start), FeedKey(reader.partition, before),
      [&](std::string_view key, std::string_view value) {
        std::vector<std::pair<uint64_t, std::string_view>> records;
        auto walked = WalkPage(SeqOf(key), value, [&](uint64_t seq, std::string_view record) {
          if (seq >= from && seq < before && !record.empty()) records.emplace_back(seq, record);
          return seq < before;
        });
        if (!walked) outcome = walked.error();
        while (outcome && !records.empty()) {
          auto event = DecodeEvent(records.back().first, records.back().second);
          records.pop_back();
          if (!event) outcome = event.error();
          if (!event || !visit(*std::move(event))) return false;
        }
        return outcome.has_value();
      },
      /*reverse=*/true);
  return scanned ? outcome : scanned;
}

// Those in rows of their own. False: `visit` has returned false.
static Result<bool> ScanSingles(const Reader& reader, uint64_t from, uint64_t before,
                                bool backwards, const std::function<bool(Event)>& visit) {
  Result<bool> more = true;
  auto scanned = reader.view.Scan(
      Key(reader.partition, kKept).Number(from).bytes(),
      Key(reader.partition, kKept).Number(before).bytes(),
      [&](std::string_view key, std::string_view value) {
        auto event = DecodeEvent(SeqOf(key), value);
        more = event ? Result<bool>(visit(*std::move(event))) : event.error();
        return more && *more;
      },
      backwards);
  return scanned ? more : scanned.error();
}

// The same for those in pages.
static Result<bool> ScanPast(const Reader& reader, uint64_t from, uint64_t before, bool backwards,
                             const std::function<bool(Event)>& visit) {
  bool more = true;
  const auto look = [&](Event event) {
    if (event.seq >= before) return false;
    return more = visit(std::move(event));
  };
  auto scanned = backwards ? ScanFeedBackwards(reader, from, before, look)
                           : ScanFeed(reader, from, look);
  return scanned ? Result<bool>(more) : scanned.error();
}

Result<Ok> ScanKept(const Reader& reader, uint64_t from, uint64_t before, bool backwards,
                    const std::function<bool(Event)>& visit) {
  if (from >= before) return Ok{};
  auto past = PastStart(reader);
  if (!past) return past.error();
  const bool paged = *past < before;
  Result<bool> more = true;
  if (paged && backwards) more = ScanPast(reader, std::max(from, *past), before, true, visit);
  if (more && *more) more = ScanSingles(reader, from, before, backwards, visit);
  if (more && *more && paged && !backwards) {
    more = ScanPast(reader, std::max(from, *past), before, false, visit);
  }
  return more ? Result<Ok>(Ok{}) : more.error();
}

Result<uint64_t> LastSeq(const Reader& reader) {
  auto first = FirstSeq(reader);
  if (!first) return first;
  auto page = LastPage(reader, *first, UINT64_MAX);
  if (!page) return page.error();
  return *page ? (*page)->last : /*mutant planted-23*/ *first - 1 /*end*/;
}

Result<uint64_t> FirstSeq(const Reader& reader) {
  return GetNumber(reader, Key(reader.partition, kFeedStart), 1);
}

Result<Event> FeedReader::Get(uint64_t seq) {
  if (seq < page_.first || seq > page_.last) {
    auto page = PageOf(reader_, seq);
    if (!page) return page.error();
    if (*page) page_ = **std::move(page);
  }
  if (seq >= page_.first && seq <= page_.last) {
    Result<Event> found = Error{Code::kNotFound, Reason::kNone, ""};
    auto walked = WalkPage(page_.first, page_.bytes, [&](uint64_t at, std::string_view record) {
      if (at == seq) found = DecodeEvent(seq, record);
      return at < seq;
    });
    return walked ? found : walked.error();
  }
  auto kept = reader_.view.Get(Key(reader_.partition, kKept).Number(seq).bytes());
  if (!kept) return kept.error();
  if (*kept) return DecodeEvent(seq, **kept);
  return Error{Code::kNotFound, Reason::kNone,
               "record " + std::to_string(seq) + " is no longer kept"};
}

Result<std::vector<uint64_t>> History(const Reader& reader, const Instance& instance,
                                      uint64_t after) {
  std::vector<uint64_t> seqs;
  const std::string begin = Key(reader.partition, kHistory).Of(instance);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           record::HistoryPage page;
                           if (!page.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                             return Corrupt("page of a history", key);
                           }
                           for (uint64_t seq : page.seqs()) {
                             if (seq > after) seqs.push_back(seq);
                           }
                           return true;
                         });
  if (!scanned) return scanned.error();
  for (uint64_t seq : instance.history) {
    if (/*mutant history-repeats-one*/ seq > after /*end*/) seqs.push_back(seq);
  }
  return seqs;
}

Result<Ok> HistoryBackwards(const Reader& reader, const Instance& instance,
                            const std::function<bool(uint64_t seq)>& visit) {
  bool more = true;
  auto visit_all = [&](const auto& seqs) {
    for (auto seq = seqs.rbegin(); more && seq != seqs.rend(); ++seq) more = visit(*seq);
  };
  visit_all(instance.history);
  if (!more) return Ok{};
  const std::string begin = Key(reader.partition, kHistory).Of(instance);
  Result<Ok> outcome = Ok{};
  auto scanned = reader.view.Scan(
      begin, PrefixEnd(begin),
      [&](std::string_view key, std::string_view value) {
        record::HistoryPage page;
        if (page.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          visit_all(page.seqs());
        } else {
          outcome = Corrupt("page of a history", key);
        }
        return more && outcome.has_value();
      },
      /*reverse=*/true);
  return scanned ? outcome : scanned;
}

// Of the pages from `begin` on, before the key `end`. Returns after which number it has ended.
static Result<uint64_t> TrimPages(const Reader& reader, const Writer& writer, uint64_t begin,
                                  const std::string& end, Timestamp horizon, size_t most,
                                  const std::function<bool(const Event&)>& keep) {
  uint64_t first = begin;
  auto scanned =
      ScanAll(reader, FeedKey(reader.partition, begin), end,
              [&](std::string_view key, std::string_view value) -> Result<bool> {
                if (first - begin >= most) return false;
                bool old = true;
                std::vector<std::pair<uint64_t, std::string_view>> kept;
                Result<Ok> sound = Ok{};
                auto next = WalkPage(SeqOf(key), value, [&](uint64_t seq, std::string_view record) {
                  if (record.empty()) return true;
                  auto event = DecodeEvent(seq, record);
                  if (!event) sound = event.error();
                  old = event && event->time <= horizon;
                  if (old && keep(*event)) kept.emplace_back(seq, record);
                  return old;
                });
                if (!next || !sound) return next ? sound.error() : next.error();
                if (!old) return false;
                for (const auto& [seq, record] : kept) {
                  writer.batch.Put(Key(writer.partition, kKept).Number(seq), std::string(record));
                }
                writer.batch.Delete(std::string(key));
                first = *next;
                return true;
              });
  if (!scanned) return scanned.error();
  return first;
}

Result<uint64_t> TrimFeed(const Reader& reader, const Writer& writer, uint64_t begin,
                          Timestamp horizon, size_t most,
                          const std::function<bool(const Event&)>& keep) {
  const std::string end = PrefixEnd(Key(reader.partition, kFeed).bytes());
  auto first = TrimPages(reader, writer, begin, end, horizon, most, keep);
  if (!first) return first;
  if (*first > begin) PutNumber(writer, Key(writer.partition, kFeedStart), *first);
  return first;
}

// The past ----------------------------------------------------------------------------------------

Result<uint64_t> PastStart(const Reader& reader) {
  return GetNumber(reader, Key(reader.partition, kPast), UINT64_MAX);
}

void PutPastStart(const Writer& writer, uint64_t seq) {
  PutNumber(writer, Key(writer.partition, kPast), seq);
}

Result<Ok> TrimPast(const Reader& reader, const Writer& writer, uint64_t start, Timestamp horizon,
                    size_t most, const std::function<bool(const Event&)>& keep) {
  auto begin = PastStart(reader);
  if (!begin || *begin == UINT64_MAX) return begin ? Result<Ok>(Ok{}) : begin.error();
  const std::string end = FeedKey(reader.partition, start);
  auto first = TrimPages(reader, writer, *begin, end, horizon, most, keep);
  if (!first) return first.error();
  bool more = false;
  auto rest = reader.view.Scan(FeedKey(reader.partition, *first), end,
                               [&more](std::string_view, std::string_view) {
                                 more = true;
                                 return false;
                               });
  if (!rest) return rest;
  if (!more) writer.batch.Delete(Key(writer.partition, kPast));
  if (more && *first > *begin) PutPastStart(writer, *first);
  return Ok{};
}

}  // namespace dfsmr::rows
