// Package redact keeps secrets out of messages.
package redact

import "regexp"

// URLs hides user and password of each URL in a list, also of one without a scheme. What
// can not be told from them is hidden too.
func URLs(list string) string {
	return regexp.MustCompile(`(^|//)[^/?]*@`).ReplaceAllString(list, "${1}***@")
}
