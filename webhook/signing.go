package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of a signing secret's bytes (Standard Webhooks).
const (
	minSecret = 24
	maxSecret = 64
)

// secretKey reads "whsec_" and base64, the form that Webhook.Validate asks for.
func secretKey(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, errors.New("the signing secret must be whsec_ and 24 to 64 bytes in base64")
	}
	return key, nil
}

// sign adds the three headers of Standard Webhooks, with a signature for each of the
// secrets: while one replaces another, a receiver that knows either finds its own.
// The timestamp is that of the attempt, so that receivers can refuse old requests
// although a message keeps its own timestamp over all its retries.
func sign(h http.Header, secrets []string, messageID string, at time.Time, body []byte) error {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(messageID + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Id", messageID)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return nil
}
