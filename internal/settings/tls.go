package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig reads the three files, each of which may be empty, into a copy of base,
// which may be nil. Without files it gives base itself.
func tlsConfig(base *tls.Config, ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return base, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		c = base.Clone()
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the authority's certificate: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read our certificate %q and key %q: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
