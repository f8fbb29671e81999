// What measuring took since the process began, and how much of that went into holding results against each other.
#pragma once

namespace pl {

struct MeasuringTime {
  double seconds = 0;    // of running candidates, without preparing them
  double comparing = 0;  // of these, for agreement (dispatch/agreement.h): to poison, read and compare results
};

MeasuringTime measuring_time();  // of all threads

}  // namespace pl
