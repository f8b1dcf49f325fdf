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
		Member: qs.process.cfg.Member, Host: host, PID: os.Getpid(), Since: qs.shell.began.UnixMilli(), Epoch: qs.shell.tenure.Epoch,
	}
	if at := qs.shell.lag.oldest.Load(); at != 0 {
		r.Lag = max(0, time.Now().UnixMilli()-at/int64(time.Millisecond))
	}
	return r
}
