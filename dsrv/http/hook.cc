#include "dsrv/http/hook.h"

#include <algorithm>
#include <utility>

#include "dfsmr/door.pb.h"
#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/mapping.h"
#include "dsrv/http/unary.h"
#include "dsrv/http/url.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

constexpr const char* kReceive = "dfsmr.door.DoorService/ReceiveWebhook";

Response ToHookResponse(const Inside::Outcome& outcome) {
  v1::Occurrence occurrence;
  if (!outcome.status.ok() || !occurrence.ParseFromString(outcome.reply)) {
    return ToResponse(Failure::Of(outcome.status, outcome.trailers));
  }
  Response response;
  response.status = 202;
  response.Set("content-type", "application/json");
  response.body = ToJson(occurrence);
  return response;
}

}  // namespace

void ServeHook(Inside& inside, std::shared_ptr<Exchange> exchange, const std::string& rest) {
  const Request& request = exchange->request;
  const size_t slash = std::min(rest.find('/'), rest.size());
  const auto ns = Decoded(rest.substr(0, slash));
  const auto path = Decoded(rest.substr(std::min(slash + 1, rest.size())));
  if (!ns || !path) {
    return exchange->Answer(
        exchange->Refused(BadRequest(400, "a percent sign is followed by two hexadecimal digits")));
  }
  // What proves the caller is made of the body as it was sent.
  const std::string coding = Lower(request.Header("content-encoding").value_or(""));
  if (!coding.empty() && coding != "identity") {
    return exchange->Answer(exchange->Refused(BadRequest(
        400, "a webhook takes bodies without content-encoding, not " + Quoted(coding))));
  }
  door::Webhook webhook;
  webhook.set_namespace_(*ns);
  webhook.set_path(*path);
  webhook.set_query(request.query);
  for (const auto& [name, value] : request.headers) {
    auto* const header = webhook.add_headers();
    header->set_name(name);
    header->set_value(value);
  }
  webhook.set_body(request.body);
  inside.Call(kReceive, ToAsker(request, exchange->visitor), webhook.SerializeAsString(),
              std::nullopt, [exchange](const Inside::Outcome& outcome) {
                exchange->Post([exchange, response = ToHookResponse(outcome)] {
                  exchange->Answer(response);
                });
              });
}

}  // namespace dfsmr::http
