package console

import (
	"testing"
	"time"
)

// The codes of RFC 6238, Appendix B, of SHA-1; their last six digits.
func TestTOTPStep(t *testing.T) {
	t.Parallel()
	const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	for at, code := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		for _, tt := range []struct{ ahead, last, want int64 }{
			{0, 0, at / 30}, {30, 0, at / 30}, {-30, 0, at / 30}, {90, 0, 0}, {-90, 0, 0},
			{0, at / 30, 0}, {0, at/30 - 1, at / 30}, {0, at/30 + 1, 0},
		} {
			if got, err := totpStep(secret, code, time.Unix(at+tt.ahead, 0), tt.last); err != nil || got != tt.want {
				t.Errorf("%s at %d%+d after step %d: %d, %v; want %d", code, at, tt.ahead, tt.last, got, err, tt.want)
			}
		}
	}
	if got, err := totpStep(secret, "", time.Unix(59, 0), 0); err != nil || got != 0 {
		t.Errorf("no code: %d, %v", got, err)
	}
	if _, err := totpStep("not base32!", "287082", time.Unix(59, 0), 0); err == nil {
		t.Error("a secret that is none is taken")
	}
}

func TestRecoveryCodeForms(t *testing.T) {
	t.Parallel()
	codes, hashes := newRecoveryCodes()
	seen := map[string]bool{}
	for i, code := range codes {
		seen[code] = true
		for _, typed := range []string{code, " " + code + "\n", "\u00a0" + code} {
			if hashRecoveryCode(plainCode(typed)) != hashes[i] {
				t.Errorf("%q is not the code %s", typed, code)
			}
		}
	}
	if len(seen) != recoveryCodes {
		t.Errorf("%d codes differ", len(seen))
	}
}
