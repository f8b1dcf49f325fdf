package history_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/pkg/history"
)

func TestLoggedPolicyContainsOnlyNonzeroSettings(t *testing.T) {
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("policy set", "policy", history.Policy{Concurrency: 2, Key: "tenant"})
	if !strings.HasSuffix(out.String(), `msg="policy set" policy.concurrency=2 policy.key=tenant`+"\n") {
		t.Error(out.String())
	}
}
