package shard

import (
	"os"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// ownership describes the owner of the partition.
func (qs *queries) ownership() *request.Ownership {
	host, _ := os.Hostname()
	r := &request.Ownership{
		Member: qs.cfg.Member, Host: host, PID: os.Getpid(), Since: qs.began.UnixMilli(), Epoch: qs.tenure.Epoch,
	}
	if at := qs.lag.oldest.Load(); at != 0 {
		r.Lag = max(0, time.Now().UnixMilli()-at/int64(time.Millisecond))
	}
	return r
}
