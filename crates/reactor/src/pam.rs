//! PAM, by `libpam.so.0`, which is loaded when the first login needs it: Trunkline also runs where the library is
//! missing, and needs nothing of PAM to be built.
//!
//! Always true: whoever is let in has passed `pam_authenticate` and `pam_acct_mgmt`; no returned text contains a
//! password.
//! Not here: which service is asked, who waits for the answer (`control`). A module may take its time: never call this
//! from a turn.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

use libloading::Library;

/// The library, loaded.
pub struct Pam {
    start: StartFn,
    set_item: SetItemFn,
    authenticate: StepFn,
    acct_mgmt: StepFn,
    end: StepFn,
    strerror: StrerrorFn,
    /// The library that contains the functions above.
    _library: Library,
}

/// An attempt to log in.
#[derive(Clone, Copy)]
pub struct PamVisit<'v> {
    /// The name of the service, and of its file in `/etc/pam.d`.
    pub service: &'v str,
    /// The user.
    pub user: &'v str,
    /// The password.
    pub password: &'v [u8],
    /// Where the user comes from (`PAM_RHOST`).
    pub host: &'v str,
}

impl Pam {
    /// Loads the library of the system.
    ///
    /// # Errors
    /// There is no such library, or it lacks a function; the text is for the log.
    pub fn load() -> Result<Self, String> {
        Self::load_from(LIBRARY)
    }

    fn load_from(name: &str) -> Result<Self, String> {
        let failed = |error: libloading::Error| format!("PAM is not available: {error}");
        // Safe because libpam runs nothing when it is loaded but what it runs in every program with PAM.
        let library = unsafe { Library::new(name) }.map_err(failed)?;
        // Safe because these are the types of security/pam_appl.h, and the library outlives what is taken from it.
        unsafe {
            Ok(Self {
                start: *library.get::<StartFn>(b"pam_start\0").map_err(failed)?,
                set_item: *library.get::<SetItemFn>(b"pam_set_item\0").map_err(failed)?,
                authenticate: *library.get::<StepFn>(b"pam_authenticate\0").map_err(failed)?,
                acct_mgmt: *library.get::<StepFn>(b"pam_acct_mgmt\0").map_err(failed)?,
                end: *library.get::<StepFn>(b"pam_end\0").map_err(failed)?,
                strerror: *library.get::<StrerrorFn>(b"pam_strerror\0").map_err(failed)?,
                _library: library,
            })
        }
    }

    /// Asks PAM whether this is the user's password, and whether the user may log in now. Takes as long as the modules
    /// take.
    ///
    /// # Errors
    /// PAM refuses the user; the text says which step has failed and why, for the log.
    pub fn check(&self, visit: &PamVisit<'_>) -> Result<(), String> {
        let c_string = |what: &str, bytes: &[u8]| {
            CString::new(bytes).map_err(|_| format!("pam_start() failed: the {what} has a zero byte"))
        };
        let service = c_string("service", visit.service.as_bytes())?;
        let user = c_string("user", visit.user.as_bytes())?;
        let host = c_string("host", visit.host.as_bytes())?;
        let password = c_string("password", visit.password)?;
        let conversation = Conversation { answer: Some(answer), password: password.as_ptr().cast_mut().cast() };
        let mut session = ptr::null_mut();
        // Safe because all that is pointed to lives until the session is ended below, and `session` is only written to.
        let code = unsafe { (self.start)(service.as_ptr(), user.as_ptr(), &conversation, &mut session) };
        if code != SUCCESS {
            return Err(format!("pam_start() failed: {}", self.words(session, code)));
        }
        let (outcome, code) = self.steps(session, &host);
        // Safe because the session was started and has not been ended; nobody uses it from here on.
        unsafe { (self.end)(session, code) };
        outcome
    }

    /// Performs the steps of a started session, and returns the outcome and the code of the last step.
    fn steps(&self, session: *mut PamHandle, host: &CStr) -> (Result<(), String>, c_int) {
        // Safe because the session was started; the library copies the host.
        let code = unsafe { (self.set_item)(session, ITEM_HOST, host.as_ptr().cast()) };
        if code != SUCCESS {
            return (Err(format!("pam_set_item() failed: {}", self.words(session, code))), code);
        }
        for (name, step) in [("pam_authenticate", self.authenticate), ("pam_acct_mgmt", self.acct_mgmt)] {
            // Safe because the session was started, and what its conversation points to lives on.
            let code = unsafe { step(session, SILENT) };
            if code != SUCCESS {
                return (Err(format!("{name}() failed: {}", self.words(session, code))), code);
            }
        }
        (Ok(()), SUCCESS)
    }

    fn words(&self, session: *mut PamHandle, code: c_int) -> String {
        // Safe because the library takes any session here, also a null pointer, and returns a static text.
        let text = unsafe { (self.strerror)(session, code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // Safe because it is not null and ends with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Pam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pam").finish_non_exhaustive()
    }
}

/// The conversation function: prompts without echo are answered with the password, other messages not at all.
unsafe extern "C" fn answer(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    password: *mut c_void,
) -> c_int {
    let Some(count) = usize::try_from(count).ok().filter(|count| (1..=MESSAGES_MAX).contains(count)) else {
        return CONVERSATION_ERROR;
    };
    if messages.is_null() || responses.is_null() || password.is_null() {
        return CONVERSATION_ERROR;
    }
    // Safe because calloc may be called with any numbers; the library frees what it is given.
    let answers = unsafe { libc::calloc(count, size_of::<Response>()) }.cast::<Response>();
    if answers.is_null() {
        return BUFFER_ERROR;
    }
    for at in 0..count {
        // Safe because the library gives as many pointers to messages as it says, and `answers` has room for as many.
        let (style, slot) = unsafe { ((**messages.add(at)).style, &mut (*answers.add(at)).text) };
        if style == PROMPT_UNSEEN {
            // Safe because the password ends with a zero byte and lives as long as the session.
            *slot = unsafe { libc::strdup(password.cast()) };
            if slot.is_null() {
                // Safe because all of these came from calloc and strdup, and free takes the nulls among them.
                unsafe {
                    (0..at).for_each(|before| libc::free((*answers.add(before)).text.cast()));
                    libc::free(answers.cast());
                }
                return BUFFER_ERROR;
            }
        }
    }
    // Safe because the library says where the answers go.
    unsafe { *responses = answers };
    SUCCESS
}

/// `pam_handle_t`, which is opaque.
#[repr(C)]
struct PamHandle {
    _nothing: [u8; 0],
}

/// `struct pam_message`.
#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

/// `struct pam_response`.
#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

/// `struct pam_conv`.
#[repr(C)]
struct Conversation {
    answer: Option<unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int>,
    password: *mut c_void,
}

type StartFn = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut *mut PamHandle) -> c_int;
type SetItemFn = unsafe extern "C" fn(*mut PamHandle, c_int, *const c_void) -> c_int;
type StepFn = unsafe extern "C" fn(*mut PamHandle, c_int) -> c_int;
type StrerrorFn = unsafe extern "C" fn(*mut PamHandle, c_int) -> *const c_char;

/// The library of Linux-PAM, by its soname.
const LIBRARY: &str = "libpam.so.0";
/// `PAM_MAX_NUM_MSG`.
const MESSAGES_MAX: usize = 32;
/// `PAM_SUCCESS`, `PAM_BUF_ERR`, `PAM_CONV_ERR`.
const SUCCESS: c_int = 0;
const BUFFER_ERROR: c_int = 5;
const CONVERSATION_ERROR: c_int = 19;
/// `PAM_PROMPT_ECHO_OFF`, `PAM_RHOST`, `PAM_SILENT`.
const PROMPT_UNSEEN: c_int = 1;
const ITEM_HOST: c_int = 4;
const SILENT: c_int = 0x8000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let Err(text) = Pam::load_from("libpam-nowhere.so.0") else { panic!("there is none") };
        assert!(text.starts_with("PAM is not available: libpam-nowhere.so.0: "), "{text}");
    }

    /// Sends messages of these styles to the conversation function, and returns the code and the answers.
    fn asked(styles: &[c_int], count: c_int) -> (c_int, Vec<Option<String>>) {
        let messages: Vec<Message> = styles.iter().map(|&style| Message { style, text: c"?".as_ptr() }).collect();
        let mut pointers: Vec<*const Message> = messages.iter().map(ptr::from_ref).collect();
        let mut answers = ptr::null_mut();
        let password = c"secret".as_ptr().cast_mut().cast();
        // Safe because there are as many messages as is said, or the count is refused before they are read.
        let code = unsafe { answer(count, pointers.as_mut_ptr(), &mut answers, password) };
        if code != SUCCESS {
            return (code, Vec::new());
        }
        let taken = (0..styles.len()).map(|at| {
            // Safe because there is an answer for each message, with a text that ends with a zero byte, or none.
            let text = unsafe { (*answers.add(at)).text };
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        });
        let taken = taken.collect();
        // Safe because the answers came from calloc and strdup, and nobody has freed them.
        unsafe {
            (0..styles.len()).for_each(|at| libc::free((*answers.add(at)).text.cast()));
            libc::free(answers.cast());
        }
        (SUCCESS, taken)
    }

    #[test]
    fn what_is_typed_unseen_is_the_password_and_nothing_else_is_answered() {
        let secret = || Some("secret".to_owned());
        assert_eq!(asked(&[PROMPT_UNSEEN], 1), (SUCCESS, vec![secret()]));
        assert_eq!(asked(&[2, PROMPT_UNSEEN, 3, 4], 4), (SUCCESS, vec![None, secret(), None, None]));
        for count in [0, -1, 33] {
            assert_eq!(asked(&[PROMPT_UNSEEN], count), (CONVERSATION_ERROR, Vec::new()));
        }
    }

    #[test]
    fn a_zero_byte_is_refused_before_anybody_is_asked() {
        // Without a library there is nothing to test.
        let Ok(pam) = Pam::load() else { return };
        let visit = PamVisit { service: "trunkline-test", user: "u", password: b"a\0b", host: "unix" };
        assert_eq!(pam.check(&visit), Err("pam_start() failed: the password has a zero byte".to_owned()));
    }
}
