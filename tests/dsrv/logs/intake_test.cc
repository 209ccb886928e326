// What is wrong with requests that append lines. The way of lines through a server is tested in
// tests/e2e/test_logs.py.
#include "dsrv/logs/intake.h"

#include <doctest/doctest.h>

#include <string>

namespace dfsmr {
namespace {

v1::AppendLogsRequest Request(const std::string& text = "line") {
  v1::AppendLogsRequest request;
  v1::LogBatch* batch = request.add_batches();
  batch->set_instance("site-7");
  batch->set_claim("1-1-1-1");
  batch->set_first(1);
  batch->add_lines()->set_text(text);
  return request;
}

Reason Wrong(const v1::AppendLogsRequest& request, bool first = true) {
  const auto checked = CheckLogs(request, first);
  return checked ? Reason::kNone : checked.error().reason;
}

TEST_CASE("requests that append lines are checked") {
  CHECK(Wrong({}) == Reason::kNone);
  CHECK(Wrong(Request()) == Reason::kNone);
  CHECK(Wrong(Request("")) == Reason::kNone);
  CHECK(Wrong(Request(std::string(limits::kLogText, 'x'))) == Reason::kNone);
  CHECK(Wrong(Request(std::string(limits::kLogText + 1, 'x'))) == Reason::kTooLarge);
  CHECK(Wrong(Request("two\nlines")) == Reason::kBadRequest);

  auto request = Request();
  request.set_namespace_("ns");
  CHECK(Wrong(request) == Reason::kNone);
  CHECK(Wrong(request, /*first=*/false) == Reason::kBadRequest);
  request = Request();
  request.mutable_batches(0)->clear_claim();
  CHECK(Wrong(request) == Reason::kBadRequest);
  request = Request();
  request.mutable_batches(0)->set_instance("not an id");
  CHECK(Wrong(request) == Reason::kBadRequest);
  request = Request();
  request.mutable_batches(0)->clear_first();
  CHECK(Wrong(request) == Reason::kBadRequest);
  request.mutable_batches(0)->clear_lines();  // nothing to number
  CHECK(Wrong(request) == Reason::kNone);
  request = Request();
  request.mutable_batches(0)->mutable_lines(0)->mutable_time()->set_nanos(-1);
  CHECK(Wrong(request) == Reason::kBadRequest);
}

TEST_CASE("numbers of lines cannot run over") {
  auto request = Request();
  request.mutable_batches(0)->set_first(UINT64_MAX);
  CHECK(Wrong(request) == Reason::kBadRequest);
  request = Request();
  request.mutable_batches(0)->set_first(limits::kLogNumber);
  CHECK(Wrong(request) == Reason::kNone);
  v1::LogLine* next = request.mutable_batches(0)->add_lines();
  CHECK(Wrong(request) == Reason::kBadRequest);
  request.mutable_batches(0)->set_first(1);
  next->set_left_out(UINT64_MAX);
  CHECK(Wrong(request) == Reason::kBadRequest);
  next->set_left_out(5);
  CHECK(Wrong(request) == Reason::kNone);
}

}  // namespace
}  // namespace dfsmr
