# Sourced, behind tools.sh, by what needs packages of other suites of Debian than the machine's own: an apt that has
# its own lists and cache in a folder, knows those suites alone, and leaves the machine's state as it is.

# More than this is a server that does not answer.
private_apt_seconds_max=300

# set_up_private_apt FOLDER SUITES WHAT: `private_apt` works in FOLDER/apt from then on; the mirror is the machine's
# own. WHAT is fetched by it, and stands in what is said where that cannot be.
set_up_private_apt() {
    local suites="$2" what="$3" key=/usr/share/keyrings/debian-archive-keyring.gpg mirror architecture
    private_apt_folder="$1/apt"
    command -v apt-get >/dev/null || skip "there is no apt to fetch $what with"
    [[ -e "$key" ]] || skip "there is no $key to check $what with"
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u |
        head -n 1)"
    [[ -n "$mirror" ]] || skip "apt knows no mirror"
    architecture="$(dpkg --print-architecture)"
    mkdir -p "$private_apt_folder"/{lists/partial,cache/archives/partial,sources,preferences}
    : >"$private_apt_folder/status"
    cat >"$private_apt_folder/sources/debian.sources" <<SOURCES
Types: deb
URIs: $mirror
Suites: $suites
Components: main
Architectures: $architecture
Signed-By: $key
SOURCES
    cat >"$private_apt_folder/apt.conf" <<CONF
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State::Lists "$private_apt_folder/lists";
Dir::State::status "$private_apt_folder/status";
Dir::Cache "$private_apt_folder/cache";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$private_apt_folder/sources";
Dir::Etc::PreferencesParts "$private_apt_folder/preferences";
CONF
    private_apt apt-get -qq update >/dev/null 2>&1 || skip "Debian's lists of packages cannot be fetched"
}

# private_apt COMMAND...: apt-get or apt-cache.
private_apt() {
    APT_CONFIG="$private_apt_folder/apt.conf" timeout "$private_apt_seconds_max" "$@"
}
