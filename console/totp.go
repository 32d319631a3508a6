package console

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"image/png"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

const (
	// totpPeriod is how long a code of an app is shown, in seconds (RFC 6238), and totpSkew how many
	// steps the clock of a phone may be off.
	totpPeriod = 30
	totpSkew   = 1
	// qrSize is the width of the picture that an app reads, in pixels.
	qrSize = 200
)

// newTOTPSecret is a secret of an app, of 160 bits, in base32.
func newTOTPSecret() string {
	secret := make([]byte, 20)
	_, _ = rand.Read(secret) // never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// totpKey holds what the QR code gives to an app: the secret, and the names that the app shows.
func totpKey(secret, host, email string) (*otp.Key, error) {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		return nil, err
	}
	return totp.Generate(totp.GenerateOpts{Issuer: "Waypost " + host, AccountName: email, Period: totpPeriod, Secret: raw})
}

// qrOf is the picture of a key as a data URL, which the policy takes for images.
func qrOf(key *otp.Key) (template.URL, error) {
	picture, err := key.Image(qrSize, qrSize)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return "", err
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(out.Bytes())), nil //nolint:gosec // made here
}

// totpStep is the time step of a code, if it is within totpSkew steps of now and later than last, the
// step of the last code that was taken; else 0.
func totpStep(secret, code string, now time.Time, last int64) (int64, error) {
	found := int64(0)
	for at := now.Unix()/totpPeriod - totpSkew; at <= now.Unix()/totpPeriod+totpSkew; at++ {
		want, err := totp.GenerateCode(secret, time.Unix(at*totpPeriod, 0))
		if err != nil {
			return 0, err
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 && at > last {
			found = at
		}
	}
	return found, nil
}

const (
	recoveryCodes  = 10
	recoveryLength = 16 // of 32 characters each: 80 bits, of which a hash without salt gives nothing away
)

// newRecoveryCodes are codes to be shown once, and their hashes.
func newRecoveryCodes() (codes, hashes []string) {
	for range recoveryCodes {
		code := strings.ToLower(rand.Text()[:recoveryLength])
		hashes = append(hashes, hashRecoveryCode(code))
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
	}
	return codes, hashes
}

// hashRecoveryCode is what is stored of a recovery code.
func hashRecoveryCode(code string) string {
	sum := sha256.Sum256([]byte("recovery/" + code))
	return hex.EncodeToString(sum[:])
}

// plainCode is a code as people type it, without what they add to read it.
func plainCode(typed string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(strings.TrimSpace(typed)))
}
