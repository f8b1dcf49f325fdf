package shard

import (
	"context"

	"github.com/pawlrun/pawl/internal/build"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
)

const maxCounted = 20_000 // records that one request reads

// versions reports the code of this process, and the versions of the instances that have not ended in the partition.
func (qs *queries) versions(ctx context.Context) (request.Reply, error) {
	out := &request.OwnerVersions{Member: qs.process.cfg.Member, Build: build.Read().Version}
	for _, name := range qs.process.cfg.Programs.Orchestrations() {
		out.Code = append(out.Code, request.Code{Orchestration: name, Versions: qs.process.cfg.Programs.Versions(name)})
	}
	at := make(map[[2]string]int)
	q := store.ListQuery{Statuses: []record.Status{record.Pending, record.Running}, Limit: maxStalled}
	for n := 0; ; {
		page, err := qs.process.store.List(ctx, qs.shell.st.Part, q)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			if row.Record == nil {
				continue
			}
			v := [2]string{row.Record.Name, row.Record.Version}
			i, ok := at[v]
			if !ok {
				i, at[v] = len(out.Instances), len(out.Instances)
				out.Instances = append(out.Instances, request.VersionCount{Orchestration: v[0], Version: v[1]})
			}
			out.Instances[i].Count++
		}
		if n += len(page.Rows); !page.More || n >= maxCounted {
			out.More = page.More
			return out, nil
		}
		q.Updated, q.Instance = page.Updated, page.Instance
	}
}
