#include "dsrv/calls/looks.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/changes_stream.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/methods.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/watch.h"
#include "storage/rows/feed.h"

namespace dfsmr {
namespace {

constexpr std::chrono::milliseconds kBeat{1'000};
constexpr size_t kRecords = 1'000;    // of an instance's history, the latest
constexpr int kNews = 500;            // changes of the feed in one message
constexpr size_t kFeedLook = 20'000;  // records of the feed that one look reads

// A call that the server makes itself, for those that watch. Deletes itself.
class InnerCall final : public Call {
 public:
  InnerCall(const Backend& backend, std::function<void(const Error*)> done)
      : Call(backend), done_(std::move(done)) {}

  std::string Peer() const override { return "watch"; }
  std::string_view Bearer() const override { return {}; }
  std::string Certificate() const override { return {}; }
  Timestamp Deadline() const override { return After(backend().clock(), std::chrono::seconds(10)); }
  void AddTrailer(const std::string&, const std::string&) override {}

 private:
  void Send(const Error* error) override {
    done_(error);
    Done(false);
    delete this;
  }
  bool ByHttp() const override { return false; }

  const std::function<void(const Error*)> done_;
};

// Whether the topic is over with it, rather than that the next look may go well.
bool Ends(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kInvalidArgument ||
         error.code == Code::kOutOfRange || error.code == Code::kPermissionDenied;
}

}  // namespace

Looks::Looks(const Backend& backend) : backend_(backend) {
  backend_.watchers.OnEnd([this] { StopAll(); });
}

Looks::~Looks() {
  std::thread thread;
  {
    const Lock lock(mutex_);
    ended_ = true;
    thread.swap(thread_);
  }
  changed_.NotifyAll();
  if (thread.joinable()) thread.join();
}

bool Looks::Add(const std::shared_ptr<Viewer>& viewer, const v1::WatchRequest& request,
                std::chrono::milliseconds every, const Caller& caller) {
  std::vector<std::pair<size_t, ValuePtr>> known;
  {
    const Lock lock(mutex_);
    if (viewers_.size() >= limits::kWatchers) return false;
    viewers_[viewer.get()] = viewer;
    for (int i = 0; i < request.topics_size(); ++i) {
      Topic topic = request.topics(i);
      topic.clear_key();
      std::string name = BytesOf(topic) + '\0' + std::to_string(every.count());
      // What somebody sees of all namespaces, and where somebody is in the feed, is their own.
      const bool own = topic.has_changes() || topic.overview().namespace_() == "*";
      if (own) name += '\0' + std::to_string(reinterpret_cast<uintptr_t>(viewer.get()));
      LookPtr& look = looks_[name];
      if (!look) {
        look = std::make_shared<Look>();
        look->name = name;
        look->topic = std::move(topic);
        if (own) look->caller = caller;
        look->every = every;
        look->next = Clock::now();
      }
      look->viewers.emplace(viewer.get(), Seen{viewer, static_cast<size_t>(i)});
      if (look->last) known.emplace_back(static_cast<size_t>(i), look->last);
    }
    ++stirred_;
    if (!thread_.joinable() && !ended_) thread_ = std::thread([this] { Run(); });
  }
  changed_.NotifyAll();
  for (auto& [topic, value] : known) viewer->Show(topic, std::move(value));
  return true;
}

void Looks::Remove(const Viewer* viewer) {
  const Lock lock(mutex_);
  viewers_.erase(viewer);
  for (auto at = looks_.begin(); at != looks_.end();) {
    at->second->viewers.erase(viewer);
    at = at->second->viewers.empty() ? looks_.erase(at) : std::next(at);
  }
}

void Looks::StopAll() {
  std::vector<std::shared_ptr<Viewer>> viewers;
  {
    const Lock lock(mutex_);
    for (const auto& [key, viewer] : viewers_) {
      if (auto open = viewer.lock()) viewers.push_back(std::move(open));
    }
  }
  for (const auto& viewer : viewers) viewer->Stop();
}

// The thread that begins looks when their time has come, and beats. It sleeps while nobody watches.
void Looks::Run() {
  auto beat = Clock::now() + kBeat;
  for (;;) {
    std::vector<LookPtr> due;
    std::vector<std::shared_ptr<Viewer>> beaten;
    {
      Lock lock(mutex_);
      while (!ended_ && viewers_.empty()) {
        changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !viewers_.empty(); });
        beat = Clock::now() + kBeat;
      }
      if (ended_) return;
      auto next = beat;
      const auto now = Clock::now();
      for (const auto& [name, look] : looks_) {
        if (look->under_way) continue;
        if (look->next <= now) {
          look->under_way = true;
          look->next = now + look->every;
          due.push_back(look);
        } else {
          next = std::min(next, look->next);
        }
      }
      if (beat <= now) {
        beat = now + kBeat;
        for (const auto& [key, viewer] : viewers_) {
          if (auto open = viewer.lock()) beaten.push_back(std::move(open));
        }
      }
      if (due.empty() && beaten.empty()) {
        const uint64_t before = stirred_;
        changed_.WaitUntil(lock, next,
                           [&]() REQUIRES(mutex_) { return ended_ || stirred_ != before; });
      }
    }
    for (const auto& viewer : beaten) viewer->Beat();
    for (const LookPtr& look : due) Begin(look);
  }
}

template <typename Row, typename Request, typename Take>
void Looks::Ask(const Row& row, const LookPtr& look, const Request& request, Take take) {
  struct Job {
    Request request;
    typename Row::Gives reply;
  };
  auto job = std::make_shared<Job>();
  job->request = request;
  auto* call = new InnerCall(backend_, [this, look, job, take](const Error* error) {
    auto value = std::make_shared<Value>();
    if (!error) *take(&value->message) = std::move(job->reply);
    Arrived(look, error, std::move(value));
  });
  call->SetCaller(look->caller);
  dfsmr::Run(row, *call, job->request, &job->reply);
}

void Looks::Begin(const LookPtr& look) {
  using Response = v1::WatchResponse;
  const Topic& topic = look->topic;
  switch (topic.what_case()) {
    case Topic::kOverview:
      return Ask(views::kGetOverview, look, topic.overview(),
                 [](Response* out) { return out->mutable_overview(); });
    case Topic::kMachine:
      return Ask(runner::kGetMachine, look, topic.machine(),
                 [](Response* out) { return out->mutable_machine(); });
    case Topic::kInstance:
      return Ask(runner::kGetInstance, look, topic.instance(),
                 [](Response* out) { return out->mutable_instance(); });
    case Topic::kSteps:
      return Ask(views::kListSteps, look, topic.steps(),
                 [](Response* out) { return out->mutable_steps(); });
    case Topic::kQueues:
      return Ask(views::kListQueues, look, topic.queues(),
                 [](Response* out) { return out->mutable_queues(); });
    case Topic::kWorkers:
      return Ask(views::kListWorkers, look, topic.workers(),
                 [](Response* out) { return out->mutable_workers(); });
    case Topic::kBulk:
      return Ask(bulks::kGetBulk, look, topic.bulk(),
                 [](Response* out) { return out->mutable_bulk(); });
    default:
      return AskFeed(look);
  }
}

void Looks::AskFeed(const LookPtr& look) {
  backend_.pool.Post([this, look] {
    v1::ChangesRequest request = look->topic.changes();
    request.set_follow(true);
    auto open = ToOpen(backend_, request);
    if (!open) {
      const Error error = open.error();
      return Arrived(look, &error, std::make_shared<Value>());
    }
    const Moment moment(backend_.reader);
    const bool first = look->after == 0;
    if (first && open->from_first) {
      auto kept = rows::FirstSeq(moment.rows);
      if (!kept) return Arrived(look, &kept.error(), std::make_shared<Value>());
      open->after = std::max(open->after, *kept - 1);
    }
    const uint64_t after = first ? open->after : look->after;
    auto value = std::make_shared<Value>();
    v1::ChangesResponse* news = value->message.mutable_news();
    uint64_t last = after;
    size_t read = 0;
    uint64_t matched = 0;
    std::deque<Event> found;
    auto scanned = rows::ScanFeed(moment.rows, after + 1, [&](const Event& event) {
      last = event.seq;
      if (open->filter.Matches(event)) {
        ++matched;
        found.push_back(event);
        if (found.size() > kNews) found.pop_front();
      }
      return ++read < kFeedLook;
    });
    if (!scanned) {
      const Error error = scanned.error();
      return Arrived(look, &error, std::move(value));
    }
    for (const Event& event : found) {
      ToProto(event, backend_.reader.partition, news->add_changes());
    }
    news->set_cursor(CursorText(backend_.changes.CursorAt(last)));
    value->message.set_left_out(matched - found.size());
    look->after = last;
    if (found.empty() && !first) {  // nothing new
      const Lock lock(mutex_);
      look->under_way = false;
      ++stirred_;
      changed_.NotifyAll();
      return;
    }
    Arrived(look, nullptr, std::move(value));
  });
}

void Looks::Arrived(const LookPtr& look, const Error* error, std::shared_ptr<Value> value) {
  if (!error && look->topic.has_instance()) return AddHistory(look, std::move(value));
  if (error && Ends(*error)) {
    ToProto(*error, value->message.mutable_gone());
  } else if (error) {
    const Lock lock(mutex_);
    look->under_way = false;  // the next look may go well
    ++stirred_;
    return changed_.NotifyAll();
  }
  Publish(look, std::move(value));
}

void Looks::AddHistory(const LookPtr& look, std::shared_ptr<Value> value) {
  backend_.pool.Post([this, look, value = std::move(value)] {
    const v1::Instance& instance = value->message.instance();
    HistoryQuery query{.ns = instance.namespace_(), .id = instance.id(), .limit = kRecords};
    query.newest_first = true;
    auto page = ReadHistory(Moment(backend_.reader), query);
    if (page) {
      for (auto event = page->events.rbegin(); event != page->events.rend(); ++event) {
        ToProto(*event, backend_.reader.partition, &value->changes.emplace_back());
      }
    }
    Publish(look, value);
  });
}

void Looks::Publish(const LookPtr& look, std::shared_ptr<Value> value) {
  std::string bytes = ComparableBytes(value->message);
  if (!value->changes.empty()) bytes += std::to_string(value->changes.back().seq());
  std::vector<std::pair<std::shared_ptr<Viewer>, size_t>> shown;
  {
    const Lock lock(mutex_);
    look->under_way = false;
    ++stirred_;
    const bool gone = value->message.has_gone();
    if (!look->last || bytes != look->bytes || look->topic.has_changes()) {
      look->last = value;
      look->bytes = std::move(bytes);
      for (const auto& [key, seen] : look->viewers) {
        if (auto viewer = seen.viewer.lock()) shown.emplace_back(std::move(viewer), seen.topic);
      }
    }
    const auto kept = looks_.find(look->name);
    if (gone && kept != looks_.end() && kept->second == look) looks_.erase(kept);  // it ends
    changed_.NotifyAll();
  }
  for (const auto& [viewer, topic] : shown) viewer->Show(topic, value);
}

}  // namespace dfsmr
