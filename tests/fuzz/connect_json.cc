// A request as JSON: what is read is written and read again as the same; protobuf's own mapping,
// which is the more lenient one, reads what is written, too.
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/http/interface.h"
#include "dsrv/http/mapping.h"
#include "fsm/base/result.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const bool lenient = bytes.Below(2) == 1;
  const std::string_view text = bytes.Rest();
  v1::ReportRequest request;
  if (!http::FromJson(text, {http::TakesJson, lenient}, &request)) return 0;
  const std::string json = http::ToJson(request);
  v1::ReportRequest again;
  Check(bool{http::FromJson(json, {http::TakesJson, false}, &again)}, "what is written is read");
  using google::protobuf::util::MessageDifferencer;
  Check(MessageDifferencer::Equals(request, again), "and is the same");
  v1::ReportRequest theirs;
  Check(google::protobuf::util::JsonStringToMessage(json, &theirs).ok(), "by protobuf, too");
  Check(MessageDifferencer::Equals(request, theirs), "and is the same there");
  return 0;
}
