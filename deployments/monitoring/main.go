// Command monitoring generates docs/metrics.md, the Grafana dashboards and the alert rules. They are generated so that tests
// can compare their metrics with those that the programs register.
//
//	go run ./deployments/monitoring
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	files, err := generate()
	if err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.FromSlash(name), content, 0o644); err != nil { //nolint:gosec // public files
			fmt.Fprintln(os.Stderr, "monitoring:", err)
			os.Exit(1)
		}
	}
}

// generate returns the contents of the files by their path in the repository.
func generate() (map[string][]byte, error) {
	metrics, err := catalog()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"docs/metrics.md":                    document(metrics),
		"deployments/monitoring/alerts.yaml": rules(),
	}
	for _, d := range dashboards() {
		b, err := d.json()
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.uid, err)
		}
		files["deployments/monitoring/"+d.uid+".json"] = b
	}
	return files, nil
}
