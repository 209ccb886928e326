// Makes spans of the records of the feed: of each instance that has a trace, of each of its visits,
// and of each attempt at these. One thread.
//
// A span is made when it ends, so the tracker remembers when it began: of the instances that had
// records lately. What it does not remember it makes of the instance's history, which is what
// happens after a restart, too.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dsrv/otlp/span.h"
#include "fsm/base/trace.h"
#include "fsm/rules/instance.h"

namespace dfsmr::otlp {

// What is known of an instance besides its records.
class Past {
 public:
  virtual ~Past() = default;
  struct Origin {
    TraceContext trace;
    uint64_t first_seq = 0;  // of its first record
  };
  // Of the instance that the record is of. Nullopt: it has no trace, or is not there any more.
  virtual std::optional<Origin> OriginOf(const Event& event) = 0;
  // Its records before this one, in order.
  virtual std::vector<Event> Before(const Event& event) = 0;
  // Of its node, as its machine says; empty: the default, or not known.
  virtual std::string QueueOf(const Event& event, const std::string& node) = 0;
};

class Tracker {
 public:
  struct Options {
    // Spans that ended with the records up to this one, not before this time, are made again for
    // instances that go on: whoever had them before may not have sent them.
    uint64_t known_to = 0;
    Timestamp again_from;
    size_t remembered = 20'000;  // instances
  };
  Tracker(Options options, Past& past) : options_(options), past_(past) {}

  // Adds the spans that end with the record, which is the next one.
  void Take(const Event& event, std::vector<Span>* spans);

 private:
  struct Attempt {
    Timestamp begin;
    std::string worker;
  };
  struct Visit {
    Timestamp begin;
    std::string node;
    std::map<uint32_t, Attempt> attempts;  // that have not ended
    bool worked = false;                   // there was an attempt
  };
  struct Known {
    std::optional<TraceContext> trace;  // nullopt: no spans are made of it
    std::string own;                    // its span
    Timestamp begin;
    std::map<uint64_t, Visit> visits;  // that have not ended
    uint64_t timed_out = 0;            // the visit that a timeout came to last
  };
  // How something has ended.
  struct End {
    std::string transition;
    std::string error = {};
    bool timed_out = false;
  };

  Known& Recall(const Event& event, std::vector<Span>* spans);
  void Apply(Known& known, const Event& event, std::vector<Span>* spans);
  void ApplyToVisit(Known& known, const Event& event, std::vector<Span>* spans);
  void Leave(Known& known, uint64_t visit, const Event& event, std::vector<Span>* spans);
  void EndVisit(Known& known, uint64_t number, const Event& event, const End& end,
                std::vector<Span>* spans);
  void EndAttempt(const Known& known, uint64_t visit, uint32_t attempt, const Event& event,
                  const End& end, std::vector<Span>* spans);
  void Finish(Known& known, const Event& event, std::vector<Span>* spans);
  static Span SpanBy(const Known& known, const Event& event, uint64_t visit, uint32_t attempt);

  const Options options_;
  Past& past_;
  // Two generations: when the young one is full it becomes the old one, and that is forgotten.
  std::unordered_map<std::string, Known> young_;
  std::unordered_map<std::string, Known> old_;
  // Those without a trace, likewise: they push none out that has one.
  std::unordered_set<std::string> untraced_;
  std::unordered_set<std::string> old_untraced_;
  Known none_;  // what is known of them
};

}  // namespace dfsmr::otlp
