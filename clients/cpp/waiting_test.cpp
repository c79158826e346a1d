#include "clients/cpp/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::client {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::Worker& add(v1::ListWorkersResponse& workers, v1::Worker::State state) {
  v1::Worker& worker = *workers.add_workers();
  worker.set_state(state);
  return worker;
}

TEST(WaitsFor, AServiceWithoutWorkersSaysHowToStartOne) {
  v1::ListWorkersResponse workers;
  EXPECT_THAT(describeWait(workers), HasSubstr("none is connected"));
  add(workers, v1::Worker::LOST);
  EXPECT_THAT(describeWait(workers), HasSubstr("start tessera-worker")) << "one that is gone is no worker";
}

TEST(WaitsFor, WhatTheWorkersDoInsteadIsCounted) {
  v1::ListWorkersResponse workers;
  add(workers, v1::Worker::BUSY);
  add(workers, v1::Worker::BUSY);
  add(workers, v1::Worker::DRAINING);
  EXPECT_EQ(describeWait(workers), "a worker with a free slot: 2 busy, 1 draining");
}

TEST(WaitsFor, AWorkersTroubleIsShownAndNoMoreThanALineOfIt) {
  v1::ListWorkersResponse workers;
  add(workers, v1::Worker::IDLE).set_trouble("its scratch folder has 5 bytes free\x1b[2J");
  EXPECT_THAT(describeWait(workers), HasSubstr("1 in trouble or suspended (its scratch folder has 5 bytes free"));
  EXPECT_THAT(describeWait(workers), Not(HasSubstr("\x1b")));
  workers.mutable_workers(0)->set_trouble(std::string(10'000, 'x'));
  EXPECT_LT(describeWait(workers).size(), 300u);
}

TEST(WaitsFor, IdleWorkersThatTakeNothingPointToTheirListAndTheQuotas) {
  v1::ListWorkersResponse workers;
  add(workers, v1::Worker::IDLE);
  add(workers, v1::Worker::BUSY);
  EXPECT_THAT(describeWait(workers), HasSubstr("1 busy, 1 idle"));
  EXPECT_THAT(describeWait(workers), HasSubstr("tessera admin quotas"));
}

}  // namespace
}  // namespace tessera::client
