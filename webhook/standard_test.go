package webhook

import (
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"waypost"
)

// What is signed is what Standard Webhooks' own library verifies, with either secret
// while one replaces the other.
func TestSignaturesAreStandard(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := waypost.Webhook{SigningSecret: secretOf("0"), SigningOverlap: waypost.DefaultSigningOverlap}
	w.SetSigningSecret(secretOf("1"), now)
	body := []byte(`{"messageId":"msg_1","params":{"greeting":"你好"}}`)
	verify := func(secret string, h http.Header, body []byte) error {
		t.Helper()
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return verifier.Verify(body, h)
	}
	h := http.Header{}
	if err := sign(h, w.SigningSecrets(now), "msg_1", now, body); err != nil {
		t.Fatal(err)
	}
	for secret, right := range map[string]bool{secretOf("0"): true, secretOf("1"): true, secretOf("2"): false} {
		if err := verify(secret, h, body); (err == nil) != right {
			t.Errorf("%s: %v", secret, err)
		}
	}
	if verify(secretOf("1"), h, append(body, ' ')) == nil {
		t.Error("a changed body verifies")
	}
	if err := sign(h, w.SigningSecrets(now.Add(24*time.Hour)), "msg_1", now, body); err != nil {
		t.Fatal(err)
	}
	if verify(secretOf("0"), h, body) == nil || verify(secretOf("1"), h, body) != nil {
		t.Error("after the overlap, the new secret alone signs")
	}
}
