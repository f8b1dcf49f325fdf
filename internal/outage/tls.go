package outage

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// RefusedTLS reports whether an error means that two parties cannot agree on TLS: a certificate that is not trusted, or is
// missing, or a server without TLS. A retry does not help.
func RefusedTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
