// Packages as messages.
#pragma once

#include "dfsmr/v1/package.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/wire/moment.h"
#include "storage/rows/package.h"

namespace dfsmr {

// How a version stands, without what is in its row.
void ToProto(const PackageStanding& standing, v1::PackageVersion* out);
// What its row says.
void ToProto(const rows::PackageVersionRow& row, const PackageStanding& standing,
             v1::PackageVersion* out);
void ToProto(const rows::ActivationRow& row, v1::Activation* out);
void ToProto(const DocumentChange& change, v1::DocumentChange* out);
// Its signatures.
Result<Ok> ShowSignatures(const Moment& moment, const rows::PackageVersionRow& row,
                          const PackageStanding& standing, v1::PackageVersion* out);

// "percent" in hundredths: in steps of 0.01, 0 when it is wholly. BAD_REQUEST.
Result<uint32_t> ToShare(double percent);

}  // namespace dfsmr
